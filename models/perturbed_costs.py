"""A world whose costs nobody knows exactly: the same run, seen through an engine profile that is off.

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
    """Every CPU constant is off by a factor that is uniform on (1 - share, 1 + share). Raises BadInput unless
    0 <= share < 1.

    fixed: the same factors in all runs, as a profile measured once has them: an error that can be learned. Else they
    are drawn for each run anew, so that none is systematic, which no engine is like: the worst that can be.
    """

    share: float
    seed: int = 0
    fixed: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.share < 1:
            raise BadInput(f"share must be in [0, 1), got {self.share}; 0.2 is 20 %")

    @property
    def name(self) -> str:
        """For file names and tables."""
        return f"misjudged-{self.share:g}-{self.seed}" + ("-fixed" if self.fixed else "")

    def __call__(self, deployment: Deployment, run: str) -> Deployment:
        """The deployment as it is believed to be. Costs that operators give themselves are constants as well: by kind
        where the error is fixed, since each run has operators of its own."""
        rng = random_stream(self.seed, "misjudged" if self.fixed else f"misjudged/{run}")
        engine = deployment.engine
        constants: dict[str, object] = {name: getattr(engine, name) * self._factor(rng) for name in _SINGLE}
        for name, kind in (("tuple_us", PerKind), ("value_us", PerType)):
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
