"""Misjudged costs: a run as models see it through an engine profile with errors.

Features and the rate model's answers rest on the profile's CPU constants. The simulator knows them exactly; on a real
cluster they are measured, with errors. Labels stay what they are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twin.deployment import Deployment
from twin.errors import BadInput
from twin.profiles import EngineProfile, PerKind, PerType
from twin.randomness import random_stream

_SINGLE = ("result_us", "scan_us", "serialise_ns_per_byte", "deserialise_ns_per_byte")


@dataclass(frozen=True, slots=True)
class PerturbedCosts:
    """Errors of every CPU constant: factors that are uniform on (1 - share, 1 + share). Raises BadInput unless
    0 <= share < 1.

    fixed: the same factors in all runs, as in a profile measured once: an error that can be learned. Else factors are
    drawn for each run anew, so that no error is systematic: the worst case, unlike any engine.
    """

    share: float
    seed: int = 0
    fixed: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.share < 1:
            raise BadInput(f"share must be in [0, 1), got {self.share}; 0.2 is 20 %")

    @property
    def name(self) -> str:
        """Name for files and tables."""
        return f"misjudged-{self.share:g}-{self.seed}" + ("-fixed" if self.fixed else "")

    def __call__(self, deployment: Deployment, run: str) -> Deployment:
        """Deployment with misjudged costs. Costs that operators give themselves are constants as well: by kind where
        the error is fixed, since each run has operators of its own."""
        rng = random_stream(self.seed, "misjudged" if self.fixed else f"misjudged/{run}")
        engine = deployment.engine
        constants: dict[str, object] = {name: getattr(engine, name) * self._factor(rng) for name in _SINGLE}
        for name, kind in (("record_us", PerKind), ("value_us", PerType)):
            values = getattr(engine, name).model_dump()
            constants[name] = kind(**{each: value * self._factor(rng) for each, value in values.items()})
        believed: EngineProfile = engine.model_copy(update=constants)
        operators = tuple(
            operator
            if operator.service_time_s is None
            else operator.model_copy(update={"service_time_s": operator.service_time_s * self._own(operator.kind, rng)})
            for operator in deployment.query.operators
        )
        query = type(deployment.query)(operators=operators, streams=deployment.query.streams)
        return deployment.model_copy(update={"engine": believed, "query": query})

    def _own(self, kind: str, rng: np.random.Generator) -> float:
        return self._factor(random_stream(self.seed, f"misjudged/{kind}") if self.fixed else rng)

    def _factor(self, rng: np.random.Generator) -> float:
        return float(rng.uniform(1 - self.share, 1 + self.share))
