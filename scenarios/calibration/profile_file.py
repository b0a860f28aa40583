"""Calibrated profiles: the constants of an engine on a machine, fitted to points, as YAML; and scenarios under them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated

from pydantic import Field

from optimizers.requirements import at_rate
from scenarios.calibration import host_cpu
from scenarios.calibration.calibrate import Calibration, under
from scenarios.calibration.estimate import Estimate
from scenarios.calibration.intervals import Intervals, Prediction
from scenarios.calibration.judging import Figures, HeldOut
from scenarios.calibration.point import Point
from scenarios.calibration.predicting import predict
from scenarios.calibration.structures import By, Structure
from scenarios.calibration.unit_costs import OWN
from scenarios.files.scenario_file import read_text
from scenarios.files.yaml_text import parse_text, to_text
from twin.checksums import ChecksumError, signed, verified
from twin.deployment import Deployment
from twin.errors import BadInput, suggest
from twin.profiles import EngineProfile
from twin.scenario import Scenario, config_hash
from twin.spec import Spec, parse
from twin.version import VERSION

_WHAT = b"# streamtwin profile"
LEARN_FROM = 200
"""Number of measured runs from which on fine-tuning helps; with fewer runs the rate model alone is as good."""


AROUND = (0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.4, 2.0)
"""Loads at which one more measurement is considered, times the load that the job bears."""


class CalibratedProfile(Spec):
    """A calibrated profile, with the evidence for its constants."""

    version: str
    scenario: Annotated[str, Field(description="that the points are of")]
    config_hash: str
    machine: Annotated[str, Field(description="that the points were measured on; empty: not said")] = ""
    points: Annotated[int, Field(ge=1)]
    residual: Annotated[float | None, Field(ge=0, description="relative, of CPU time; absent: none was measured")] = (
        None
    )
    by: By
    exponent: Annotated[float, Field(gt=0, description="a host gives its nominal cores to that power")] = 1.0
    own_cores: Annotated[bool, Field(description="replicas did not wait for cores")] = False
    engine: EngineProfile
    costs: dict[str, Annotated[float, Field(ge=0)]]
    hidden: dict[str, Annotated[float, Field(ge=0)]]
    base: Annotated[
        Mapping[str, float], Field(description="reference cores by host that the engine uses without records")
    ] = {}
    others_percent: Annotated[
        Mapping[str, float], Field(description="of hosts with a base: what records did not find of them, at least")
    ] = {}
    estimates: tuple[Estimate, ...]
    held_out: tuple[Figures, ...]
    intervals: Annotated[Intervals, Field(description="how far off predictions of points held out were")] = Intervals()
    saturated: Annotated[bool, Field(description="a source was slowed at some point")] = True


AS_FITTED = ("exponent", "costs", "hidden", "base", "others_percent", "estimates")
"""Fields of a `Calibration` that a profile repeats unchanged."""


def profile_of(
    scenario: Scenario, found: Calibration, held_out: HeldOut, points: Sequence[Point], machine: str
) -> CalibratedProfile:
    """Profile of a calibration, ready to be written. scenario: the job that was measured."""
    return CalibratedProfile(
        version=VERSION,
        scenario=scenario.name,
        config_hash=config_hash(scenario),
        machine=machine,
        points=len(points),
        residual=found.tried[0].residual if found.tried else None,
        by=found.structure.by,
        own_cores=found.structure.own_cores,
        engine=scenario.engine,
        **{name: getattr(found, name) for name in AS_FITTED},
        held_out=held_out.figures,
        intervals=held_out.intervals,
        saturated=any(point.saturated for point in points),
    )


def dump(profile: CalibratedProfile) -> str:
    """Profile as a text that loads back equal. Its first line is a comment with its checksum."""
    return signed(to_text(profile.model_dump(mode="json", exclude_none=True)).encode(), _WHAT).decode()


def load(path: Path) -> CalibratedProfile:
    """Reads the profile in a file. Raises BadInput if it is missing, damaged, or not a calibrated profile."""
    try:
        text = verified(read_text(path).encode(), _WHAT).decode()
    except ChecksumError:
        raise BadInput(
            f"{path} is not as 'twin calibrate' wrote it; calibrate again, or remove its first line if it was changed "
            "on purpose"
        ) from None
    data = parse_text(text, str(path))
    if isinstance(data, Mapping) and "query" in data:
        raise BadInput(f"{path} is a scenario, which comes first: twin use-profile SCENARIO PROFILE")
    if not isinstance(data, Mapping) or "estimates" not in data:
        raise BadInput(f"{path} is no calibrated profile; name a file that 'twin calibrate --out' wrote")
    return parse(CalibratedProfile, data, where=str(path))


def applied(profile: CalibratedProfile, scenario: Scenario, machine: str | None = None) -> Scenario:
    """Scenario under a calibrated profile. machine: the one that it is to run on; None: the profile's.

    Raises BadInput if that is another machine, if costs are by operator and the scenario has other operators, or if it
    is under the profile already, as a second time would change its hosts again.
    """
    if machine is not None and machine != profile.machine:
        measured = repr(profile.machine) if profile.machine else "a machine that nobody named"
        raise BadInput(f"the profile was fitted on {measured}, not on {machine!r}; calibrate on points of that machine")
    names = {each.name for each in scenario.query.operators}
    for cost in profile.costs:
        name = cost.removeprefix(OWN)
        if cost.startswith(OWN) and name not in names:
            raise BadInput(
                f"the profile has the cost of operator {name!r}, which {scenario.name} lacks ({suggest(name, names)}); "
                "costs by kind fit other jobs: calibrate with --by kind"
            )
    own = {cost.removeprefix(OWN) for cost in profile.costs if cost.startswith(OWN)}
    if own and (unknown := sorted(names - own)):
        raise BadInput(f"the profile has no cost of operator {unknown[0]!r}; calibrate on points of this job")
    found = _under(profile, scenario, profile.costs, profile.hidden)
    once = profile.exponent != 1.0 or profile.by == "function"
    if once and (found.engine, found.query) == (scenario.engine, scenario.query):
        raise BadInput(
            f"{scenario.name} is under this profile already; name the scenario from before 'twin use-profile'"
        )
    return found


def ends(profile: CalibratedProfile, scenario: Scenario) -> list[Scenario]:
    """Scenario under the cheapest and the dearest constants of the intervals. Raises BadInput as `applied`."""
    applied(profile, scenario)
    return [_under(profile, scenario, profile.intervals.costs(profile.costs, sign), profile.hidden) for sign in (-1, 1)]


def predictions(profile: CalibratedProfile, scenario: Scenario) -> list[Prediction]:
    """Predictions of the rate model under a profile, with intervals. Raises BadInput as `applied`.

    The most that a source could be offered has no interval if no source was slowed at any point: then nothing tells
    whether a record costs as much near saturation as at a light rate. On a live Flink it cost up to 15 % less.
    """
    under_all = (applied(profile, scenario), *ends(profile, scenario))
    found = profile.intervals.around(*map(predict, under_all))
    if profile.saturated:
        return found
    without = {"low": None, "high": None}
    return [each.model_copy(update=without) if each.kind == "bears" else each for each in found]


class NextPoint(Spec):
    """Load at which one more measurement tells most, times the scenario's rates: intervals are widest there."""

    load: float
    predictions: tuple[Prediction, ...]


def tells_most(profile: CalibratedProfile, scenario: Scenario) -> NextPoint | None:
    """Most useful next measurement among loads around saturation. None if no interval has any width."""
    bears = min(math.exp(each) for each in predict(applied(profile, scenario)).margin.values())
    narrow = profile.model_copy(update={"intervals": profile.intervals.model_copy(update={"beyond": {}})})
    tried = []
    for load in (bears * times for times in AROUND):
        said = predictions(narrow, at_rate(scenario, load))
        results = tuple(each for each in said if each.kind in ("delivered", "latency"))
        tried.append((sum(math.log(each.high / each.low) for each in results if each.low and each.high), load, results))
    width, load, results = max(tried, key=lambda each: each[0])
    return NextPoint(load=load, predictions=results) if width > 0.0 else None


def _under(
    profile: CalibratedProfile, scenario: Scenario, costs: Mapping[str, float], hidden: Mapping[str, float]
) -> Scenario:
    as_before = host_cpu.beside(scenario, profile.others_percent).model_copy(update={"engine": profile.engine})
    structure = Structure(profile.by, profile.exponent, profile.own_cores)
    return under(as_before, structure, profile.exponent, costs, hidden)


@dataclass(frozen=True)
class UnderProfile:
    """Puts deployments under the constants of a profile; a `models.encoding.Reprofiled`."""

    profile: CalibratedProfile

    @cached_property
    def name(self) -> str:
        """Name with a hash of the whole profile."""
        return f"profile-{hashlib.sha256(dump(self.profile).encode()).hexdigest()[:12]}"

    def __call__(self, deployment: Deployment, run: str) -> Deployment:
        """Deployment under the profile. Raises BadInput if the profile has costs of other operators."""
        return applied(self.profile, Scenario.of(deployment).model_copy(update={"name": run})).deployment
