"""Cost models by name."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from optimizers import plugins
from optimizers.interface import Optimizer
from optimizers.planner import LOADS, MEAN, Planner, RatesAt, loads_of, rates_at
from scenarios.calibration.calibrate import LEVEL
from scenarios.calibration.profile_file import CalibratedProfile, applied, ends
from scenarios.planning.bench import SimulatedCostModel
from twin.errors import BadInput, suggest
from twin.metrics import CostModel, Estimates, Further
from twin.plan import ExecutionPlan
from twin.rates.model import RateModel
from twin.scenario import Scenario

if TYPE_CHECKING:
    from models.prediction import LearnedCostModel

# a calibrated profile ------------------------------------------------------------------------------------------------
# Cost model of a calibrated profile: the rate model under its constants, with a spread from its intervals.


LATENCY = "processing_latency_s"


@dataclass(frozen=True, slots=True)
class CalibratedCostModel:
    """Cost model of a profile. name: of its file. base: model that predicts under its constants."""

    name: str
    profile: CalibratedProfile
    base: CostModel

    @property
    def further(self) -> tuple[str, ...]:
        """What the base model estimates beside METRICS."""
        return self.base.further if isinstance(self.base, Further) else ()

    def predict(self, scenario: Scenario, plans: Sequence[ExecutionPlan]) -> Estimates:
        """Estimates of the base model for the calibrated scenario. spread: of the base and the intervals together.

        Raises BadInput for a scenario that the profile does not fit.
        """
        found = self.base.predict(applied(self.profile, scenario), plans)
        return Estimates(found.by_metric, np.hypot(found.spread, self._width(scenario, plans)))

    def blind_to(self, scenario: Scenario) -> tuple[str, ...]:
        """Features of the scenario that the base model ignores, in words."""
        return self.base.blind_to(scenario)

    def _width(self, scenario: Scenario, plans: Sequence[ExecutionPlan]) -> np.ndarray:
        """[N] standard deviation of the log latency, as if it were normal with these intervals."""
        kind, intervals = "latency", self.profile.intervals
        latencies = [RateModel().predict(each, plans)[LATENCY] for each in ends(self.profile, scenario)]
        low_n, high_n = np.sort(np.maximum(latencies, 1e-9), axis=0)
        widened = math.log(intervals.beyond[kind].factor) if kind in intervals.beyond else 0.0
        return np.asarray((np.log(high_n / low_n) / 2.0 + widened) / NormalDist().inv_cdf(0.5 + LEVEL / 2.0))


# names ---------------------------------------------------------------------------------------------------------------
# Cost models by name: `rates` (analytic), the same for another load (`rates:peak`), `learned` (the shipped network),
# the folder of a trained one, the file of a calibrated profile, and a class in a Python file.


RATES, LEARNED = "rates", "learned"
NAMES = (*(rates_at(load).name for load in LOADS), LEARNED)
RUNS = ("sim", "staged")
"""Names of before for cost models that simulated."""
BY_RUNS = "runs judge plans with a budget: give --budget 20 (CPU seconds) or --budget 40runs, and leave {name} out"
PROFILES = (".yaml", ".yml")


def cost_model(name: str) -> CostModel:
    """Cost model of a name, folder, profile or class (`FILE.py:CLASS`); `learned:FOLDER` uses the model in a folder,
    and `rates:LOAD` plans for a load.

    Raises BadInput if it is neither a known name, nor a folder that holds a model, nor a calibrated profile, nor a
    class that satisfies `twin.metrics.CostModel`.
    """
    if name == RATES:
        return rates_at(MEAN)
    kind, _, which = name.partition(":")
    if kind in RUNS:
        raise BadInput(f"--cost-model {name!r}: {BY_RUNS.format(name=name)}")
    if plugins.is_file(name):
        return plugins.model_from_file(name, NAMES)
    if name.endswith(".py"):
        raise BadInput(f"--cost-model {name!r} names a file but no class in it; write {name}:CLASS")
    if name.endswith(PROFILES):
        from scenarios.calibration import profile_file  # it needs all that calibrates, a second of imports
        from scenarios.planning.cost_models import CalibratedCostModel

        return CalibratedCostModel(name, profile_file.load(Path(name)), RateModel().planning())
    if kind == RATES:
        if which not in LOADS:
            raise BadInput(f"--cost-model {name!r}: unknown load {which!r}; {suggest(which, LOADS)}")
        return rates_at(which)
    if kind == LEARNED:
        return _learned(name, which)
    if not Path(name).is_dir():
        remedy = suggest(name, NAMES)
        raise BadInput(
            f"--cost-model {name!r} is none of {', '.join(NAMES)}, nor a folder that 'twin train' wrote, nor a profile "
            f"(YAML) of 'twin calibrate', nor a class (FILE.py:CLASS); {remedy}"
        )
    return _learned(name, name)


def _learned(name: str, folder: str) -> LearnedCostModel:
    if folder and not Path(folder).is_dir():
        raise BadInput(f"--cost-model {name!r}: {folder!r} is no folder; name one that 'twin train' wrote")
    try:
        from models import prediction, shipped  # the only cost models that need JAX
    except ImportError as error:
        raise BadInput(f"--cost-model {name!r} cannot be loaded: {error}; see 'twin --traceback'") from error
    return prediction.load(Path(folder)) if folder else shipped.model()


def load_model(folder: str | Path = "") -> LearnedCostModel:
    """Learned model in a folder of `twin train`; by default the shipped one. Its `predict(scenario, plans)` gives
    `twin.metrics.Estimates`, its `interval(scenario, plans, metric)` what nine of ten runs lie between. Raises BadInput
    if there is no such folder, or it holds no model, or a damaged one."""
    name = "" if str(folder) == LEARNED else str(folder)
    if name and not Path(name).is_dir():
        raise BadInput(f"there is no folder {name!r}; name one that 'twin train' wrote, or {LEARNED!r}")
    return _learned(name or LEARNED, name)


def is_learned(model: CostModel) -> bool:
    """Whether a cost model makes errors that a search would exploit: any but the rate model and the simulator."""
    return not isinstance(model, RateModel | RatesAt | SimulatedCostModel)


def with_loads(models: Sequence[CostModel], scenario: Scenario) -> list[CostModel]:
    """Models with the rate model for every load of the scenario, which learning and runs are compared with. Where all
    loads are the mean, that is one model."""
    loads = loads_of(scenario)
    kept = [each for each in models if not isinstance(each, RatesAt) or each.load in loads]
    names = {each.name for each in kept}
    return [*kept, *(model for load in loads if (model := rates_at(load)).name not in names)]


def cost_models(names: str) -> Mapping[str, CostModel]:
    """Cost models of a comma-separated list, by name. Raises BadInput for none or duplicates, and as `cost_model`."""
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    if not wanted or len(set(wanted)) < len(wanted):
        raise BadInput(f"--cost-model {names!r} names {'one twice' if wanted else 'none'}; name each once")
    return {name: cost_model(name) for name in wanted}


def planner_for(optimizer: Optimizer, model: CostModel) -> Planner:
    """Planner of an optimizer under a cost model. A learned model chooses among plans that an analytic optimizer finds
    by rates, and is asked about any plan by others."""
    planner = optimizer if isinstance(optimizer, Planner) else Planner(optimizer)
    return replace(planner, near=is_learned(model) and planner.traits.analytic)
