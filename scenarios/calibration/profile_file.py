"""Calibrated profiles as files: the constants of an engine on a machine, and how well they predict points not seen."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import Field

from optimizers.objectives import at_rate
from scenarios.calibration.calibrate import (
    WORK,
    Calibration,
    Estimate,
    Intervals,
    Prediction,
    calibrate_as,
    of_loads,
    outside,
    pairs,
    under,
    with_beyond,
)
from scenarios.calibration.newton import Predicted, predict
from scenarios.calibration.points import KEEPS_UP, Point
from scenarios.calibration.structures import By, Structure, Works, bases, beside, rested, without
from scenarios.calibration.unit_costs import OWN
from scenarios.executing import Progress
from scenarios.files.scenario_file import read_text
from scenarios.files.yaml_text import parse_text, to_text
from twin import VERSION
from twin.deployment import Deployment
from twin.errors import BadInput, suggest
from twin.files import ChecksumError, signed, verified
from twin.profiles import EngineProfile
from twin.randomness import random_stream
from twin.scenario import Scenario, config_hash
from twin.spec import Spec, parse

# judging -------------------------------------------------------------------------------------------------------------
# Judges a calibration by its predictions of points that it has not seen, beside baselines that need no calibration.


FOLDS = 10
FACTORS = ("delivered", "latency", "markers")
"""Kinds of readings whose errors are factors."""
ALWAYS, CAP, BEFORE, CALIBRATED = "always keeps up", "one cap", "the profile before", "calibrated"

Predict = Callable[[Point], Predicted]
Share = Annotated[float | None, Field(ge=0, le=1)]
Ratio = Annotated[float | None, Field(ge=1)]
Error = Annotated[float | None, Field(ge=0)]


class Figures(Spec):
    """Errors of one predictor at points that it was not fitted to; None where nothing was measured or predicted.

    keeps_up: share of sources with a known offer for which it predicts rightly whether they keep up. delivered: q-error
    of the records that sources take, median and 95 %; slowed: of sources that fall behind. cpu, busy: errors of shares
    (0 to 1), medians and highest. latency: q-error, median and 95 %; markers: of the ages of latency markers.
    """

    predictor: str
    sources: int
    keeps_up: Share = None
    delivered: Ratio = None
    delivered_p95: Ratio = None
    slowed: Ratio = None
    cpu: Error = None
    cpu_max: Error = None
    busy: Error = None
    busy_max: Error = None
    latency: Ratio = None
    latency_p95: Ratio = None
    markers: Ratio = None
    markers_p95: Ratio = None


class HeldOut(NamedTuple):
    """Result of predicting points held out: figures of all predictors, and intervals of the calibrated one."""

    figures: tuple[Figures, ...] = ()
    intervals: Intervals = Intervals()


def held_out(points: Sequence[Point], found: Calibration, report: Progress | None = None) -> HeldOut:
    """Predicts each point from the others, and by the baselines. Needs at least two points.

    Of several jobs one is left out at a time, else one point; more at once where that makes more than FOLDS parts.
    """
    points = rested(points)
    told, parts = without(points, found.base), _parts(points)
    works = Works(told) if found.tried else None
    predictors: dict[str, list[tuple[Point, Predicted]]] = {name: [] for name in (ALWAYS, CAP, BEFORE, CALIBRATED)}
    fits: list[tuple[Point, Calibration]] = []
    for done, part in enumerate(parts):
        if report is not None:
            report(done, len(parts))
        if found.base:
            told = without(points, _base(points, part, found))
            works = Works(told)
        unseen = [told[number] for number in part]
        seen = [told[number] for number in range(len(told)) if number not in part]
        for name, predictor in baselines(seen).items():
            predictors[name] += [(point, predictor(point)) for point in unseen]
        with suppress(BadInput):  # what is left is too little to fit
            fitted = calibrate_as(seen, found, works)
            fits += [(point, fitted) for point in unseen]
    predictors[CALIBRATED] = [(point, predict(fitted.applied(point.scenario))) for point, fitted in fits]
    intervals = of_loads(predictors[CALIBRATED], found.costs)
    off = [
        each
        for (point, fitted), (_, middle) in zip(fits, predictors[CALIBRATED], strict=True)
        for each in outside(point, middle, *map(predict, fitted.ends(point.scenario, intervals)))
    ]
    if report is not None:
        report(len(parts), len(parts))
    judged = tuple(figures(name, each) for name, each in predictors.items() if each)
    return HeldOut(judged, with_beyond(intervals, off))


def _base(points: Sequence[Point], part: Sequence[int], found: Calibration) -> dict[str, float]:
    """Base cores of each host by the points that are not left out; by all points where these tell none."""
    seen = bases([point for number, point in enumerate(points) if number not in part])
    return {host: seen[host].cores if host in seen else cores for host, cores in found.base.items()}


def _parts(points: Sequence[Point]) -> list[list[int]]:
    """Numbers of the points that are left out together."""
    jobs: dict[str, list[int]] = {}
    for number, point in enumerate(points):
        jobs.setdefault(point.scenario.query.model_dump_json(), []).append(number)
    groups = list(jobs.values()) if len(jobs) > 1 else [[number] for number in range(len(points))]
    order = random_stream(0, "folds").permutation(len(groups))
    return [
        [number for group in order[start::FOLDS] for number in groups[group]]
        for start in range(min(FOLDS, len(groups)))
    ]


def baselines(seen: Sequence[Point]) -> dict[str, Predict]:
    """Predictors that need no calibration, by name. seen: points that tell the most a subtask of a source delivers."""
    cap = cap_per_subtask(seen)
    return {
        ALWAYS: lambda point: _capped(point, np.inf),
        CAP: lambda point: _capped(point, cap),
        BEFORE: lambda point: predict(point.scenario),
    }


def cap_per_subtask(points: Sequence[Point]) -> float:
    """Records a second that a source's subtask delivers when it falls behind, the median; inf if none does."""
    caps = [
        point.taken_per_s[source] / point.scenario.plan.parallelism(source)
        for point in points
        for source, share in point.delivered.items()
        if share < KEEPS_UP
    ]
    return float(np.median(caps)) if caps else np.inf


def _capped(point: Point, cap: float) -> Predicted:
    """Prediction of a point by one number: the most records/s that a source's subtask delivers."""
    plan = point.scenario.plan
    delivered = {name: min(1.0, cap * plan.parallelism(name) / point.offered_per_s(name)) for name in point.delivered}
    return Predicted(delivered=delivered, margin={}, busy={}, cpu={}, latency_s=np.nan, markers_s={})


def figures(name: str, judged: Sequence[tuple[Point, Predicted]]) -> Figures:
    """Figures of a predictor, from points with their predictions."""
    both: dict[str, list[tuple[float, float]]] = {}
    known = []
    for point, predicted in judged:
        for (kind, of), pair in pairs(point, predicted).items():
            both.setdefault(kind, []).append(pair)
            if kind == "delivered" and of not in point.capped:
                known.append((pair[0] < KEEPS_UP) == (pair[1] < KEEPS_UP))
    shares = both.get("delivered", [])
    found = {
        "slowed": _quantile([_q(*pair) for pair in shares if pair[0] < KEEPS_UP], 0.5),
        **{kind: _quantile([_q(*pair) for pair in both.get(kind, [])], 0.5) for kind in FACTORS},
        **{f"{kind}_p95": _quantile([_q(*pair) for pair in both.get(kind, [])], 0.95) for kind in FACTORS},
        **{kind: _quantile([abs(a - b) for a, b in both.get(kind, [])], 0.5) for kind in WORK},
        **{f"{kind}_max": _quantile([abs(a - b) for a, b in both.get(kind, [])], 1.0) for kind in WORK},
    }
    return Figures(predictor=name, sources=len(shares), keeps_up=sum(known) / len(known) if known else None, **found)


def _q(a: float, b: float) -> float:
    """q-error: the factor between two values, at least 1."""
    return max(a, b) / max(min(a, b), 1e-9)


def _quantile(values: Sequence[float], share: float) -> float | None:
    return float(np.quantile(values, share)) if values else None


# the file ------------------------------------------------------------------------------------------------------------
# Calibrated profiles: the constants of an engine on a machine, fitted to points, as YAML; and scenarios under them.


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
    own_cores: Annotated[bool, Field(description="subtasks did not wait for cores")] = False
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
    paid = {each.name for each in scenario.query.operators if each.service_time_s != 0.0}
    if own and (unknown := sorted(paid - own)):
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
    as_before = beside(scenario, profile.others_percent).model_copy(update={"engine": profile.engine})
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
