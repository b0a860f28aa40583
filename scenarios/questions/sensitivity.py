"""Finds the inputs that matter: screening after Morris, then indices after Sobol for those that do.

Every point of the input space is simulated on the same random numbers, so that all differences are due to the inputs.
Morris (Technometrics 33, 1991, with mu* of Campolongo et al., Environmental Modelling & Software 22, 2007): mean size
of the effect of a step of one input, over all values of the others. Sobol (Mathematics and Computers in Simulation 55,
2001; Saltelli et al., Computer Physics Communications 181, 2010): share of the variance of the result that an input
explains alone (first order), and with all others together (total).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from scenarios.executing import Audience
from scenarios.files.documents import CLOSED, Number
from scenarios.files.scenario_file import parted
from scenarios.measures import of, surely_keeps_up
from scenarios.questions.bench import Bench, Job, of_mean, to_go
from scenarios.questions.knobs import Knob, bounds, knob, whole
from scenarios.questions.whatif import LEAST_SHARE
from twin.errors import BadInput
from twin.randomness import child_seed
from twin.scenario import Scenario

FLAG = "--input"
MATTERS = 0.1
"""Share of the largest mu* below which an input is screened out."""
LEVELS = 4
OVERLOADED = (
    "at {} of {} points the job does not keep up, or would not in longer runs, as something is full; latencies and "
    "effects there tell the length of the run, so narrow the intervals"
)
ENOUGH = 64
"""Number of samples from which on intervals of Sobol's indices have their nominal coverage: on Ishigami's function,
95 % intervals cover 90 % with 16, 92 % with 32, 96 % with 64 and 97 % with 128 samples (60 to 150 draws)."""
FEWEST_INPUTS = 2
Measured = dict[str, float]
"""Results of a method for an input, by fields of `InputEffect`."""
UNEXPLAINED = dict.fromkeys(("first", "first95", "total", "total95"))
"""Indices of an input that is screened out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputEffect:
    """Effect of an input on the metric, in the unit of the metric. low, high: the interval of the input.

    mu, mu_star, sigma: mean, mean size and standard deviation of the effect of a step over it (Morris). first, total:
    shares of the variance (Sobol), if it matters. given, at_low, at_high: the metric with all inputs as given, and with
    this one at its ends. Fields whose names end in 95 are half widths of 95 % intervals.
    """

    input: str
    low: float
    high: float
    mu: float
    mu_star: float
    mu_star95: Number
    sigma: float
    matters: bool
    first: Number
    first95: Number
    total: Number
    total95: Number
    given: float
    at_low: float
    at_high: float


@CLOSED
@dataclass(frozen=True, slots=True, kw_only=True)
class SensitivityAnswer:
    """The answer of `twin sensitivity`; the inputs that matter most come first. points: number of them that the methods
    ask for; keeps_up: at how many the job surely keeps up."""

    scenario: str
    metric: str
    seed: int
    trajectories: int
    samples: int
    replications: int
    given: float
    points: int
    keeps_up: int
    inputs: tuple[InputEffect, ...]
    warnings: tuple[str, ...]


class Input(NamedTuple):
    """Knob with the interval over which it is varied. whole: it takes whole numbers only. log: shares of the interval
    are even in its logarithm."""

    knob: Knob
    low: float
    high: float
    whole: bool
    log: bool = False

    def value(self, share: float) -> float | int:
        """Value at a share in [0, 1] of the interval."""
        value = self.low * (self.high / self.low) ** share if self.log else self.low + (self.high - self.low) * share
        return round(value) if self.whole else float(value)


class SampleBudget(NamedTuple):
    """Numbers of points and runs. trajectories: for Morris; each has (inputs + 1) points. samples: for Sobol, a power
    of 2; each has (inputs + 2) points. replications: runs of each point, of which the mean counts.
    """

    trajectories: int = 10
    samples: int = 64
    replications: int = 2

    def check(self) -> None:
        """Raises BadInput if indices cannot be estimated from so little."""
        if self.trajectories < 2:
            raise BadInput(f"--trajectories {self.trajectories}: at least 2, of which effects are averaged")
        if self.samples < 8 or self.samples & (self.samples - 1):
            raise BadInput(f"--samples {self.samples}: a power of 2 from 8, such as 64, for Sobol's sequence")
        if self.replications < 1:
            raise BadInput(f"--replications {self.replications}: at least 1")


def inputs(texts: Sequence[str], scenario: Scenario) -> list[Input]:
    """Inputs from PATH=LOW..HIGH, or PATH=LOW..HIGH:log. Raises BadInput for invalid, repeated or too few inputs."""
    listed = [_input(text, scenario) for text in texts]
    names = [item.knob.name for item in listed]
    if len(names) < FEWEST_INPUTS:
        raise BadInput(
            f"inputs: {len(names)}; give {FLAG} PATH=LOW..HIGH twice or more (twin whatif --vary is for one)"
        )
    for name in names:
        if names.count(name) > 1:
            raise BadInput(f"{FLAG} {name} is given {names.count(name)} times; give one interval")
    return listed


def _input(text: str, scenario: Scenario) -> Input:
    name, interval = parted(text, FLAG, "PATH=LOW..HIGH, such as cluster.hosts.edge-1.cpu_percent=50..200")
    log = interval.endswith(":log")
    turn = knob(name, FLAG)
    given = turn.given(scenario)
    if isinstance(given, bool) or not isinstance(given, int | float | None):
        raise BadInput(f"{FLAG} {name}: it stands at {given!r}, which is no number")
    low, high = bounds(interval.removesuffix(":log"), f"{FLAG} {name}")
    if log and low <= 0.0:
        raise BadInput(f"{FLAG} {name}: {interval} reaches 0, which has no logarithm; begin above it")
    found = Input(turn, low, high, whole(turn, scenario), log)
    for share in (0.0, 1.0):
        turn.turned(scenario, found.value(share))
    return found


class Model(NamedTuple):
    """Simulator as a function of points: for each input, a share in [0, 1] of its interval."""

    scenario: Scenario
    inputs: Sequence[Input]
    metric: str
    replications: int
    seed: int

    def jobs(self, points: np.ndarray) -> list[Job]:
        """Runs of all points, point by point. points: [N, inputs]. Raises BadInput if a point is no valid scenario."""
        seeds = [child_seed(self.seed, index) for index in range(self.replications)]
        turned: dict[tuple[float, ...], Scenario] = {}
        for point in points:
            turned.setdefault(tuple(point), self._turned(point))
        return [(turned[tuple(point)], seed) for point in points for seed in seeds]

    def results(self, bench: Bench, points: np.ndarray, audience: Audience) -> np.ndarray:
        """[N] means of the metric over replications. Raises BadInput if a run has no results."""
        jobs = self.jobs(points)
        audience.stage(f"{len(points)} points, {self.replications} runs of each{to_go(bench, bench.missing(jobs))}")
        with audience.progress("runs") as report:
            outcomes = bench.outcomes(jobs, report)
        values = np.array([of(outcome.measures, self.metric) for outcome in outcomes]).reshape(len(points), -1)
        for point, row in zip(points, values, strict=True):
            if not np.all(np.isfinite(row)):
                raise BadInput(f"no {self.metric} at {self.told(point)}: no results there; narrow the intervals")
        return values.mean(axis=1)

    def told(self, point: np.ndarray) -> str:
        """Values of the inputs at a point, in words."""
        named = zip(self.inputs, point, strict=True)
        return ", ".join(f"{item.knob.name} = {item.value(share):.4g}" for item, share in named)

    def _turned(self, point: np.ndarray) -> Scenario:
        turned = self.scenario
        for item, share in zip(self.inputs, point, strict=True):
            turned = item.knob.turned(turned, item.value(float(share)))
        return turned


def sensitivity(model: Model, budget: SampleBudget, bench: Bench, audience: Audience) -> SensitivityAnswer:
    """Screens all inputs, and explains the variance by those that matter. Raises BadInput as `Model.results` does."""
    budget.check()
    screened = _morris(model, budget, bench, audience)
    largest = max(effect["mu_star"] for effect in screened)
    ends = _ends(model, bench, audience)
    seen = largest > LEAST_SHARE * abs(ends[0]["given"])
    matter = [index for index, effect in enumerate(screened) if seen and effect["mu_star"] >= MATTERS * largest]
    few = model._replace(inputs=[model.inputs[index] for index in matter])
    shares = dict(zip(matter, _sobol(few, budget, bench, audience) if len(matter) > 1 else [], strict=False))
    effects = [
        InputEffect(
            input=turned.knob.name,
            low=turned.low,
            high=turned.high,
            **screened[index],
            matters=index in matter,
            **shares.get(index, UNEXPLAINED),
            **ends[index],
        )
        for index, turned in enumerate(model.inputs)
    ]
    steps, shared = _trajectories(model, budget), _design(few, budget) if len(matter) > 1 else np.empty((0, 0))
    kept = [*_keeps_up(model, bench, steps), *_keeps_up(few, bench, shared)]
    return SensitivityAnswer(
        scenario=model.scenario.name,
        metric=model.metric,
        seed=model.seed,
        **budget._asdict(),
        given=ends[0]["given"],
        points=len(kept),
        keeps_up=sum(kept),
        inputs=tuple(sorted(effects, key=lambda effect: -effect.mu_star)),
        warnings=() if all(kept) else (OVERLOADED.format(kept.count(False), len(kept)),),
    )


def _keeps_up(model: Model, bench: Bench, points: np.ndarray) -> list[bool]:
    """Whether the job surely keeps up in all runs of each point, all of which were made."""
    outcomes = bench.outcomes(model.jobs(points))
    runs = [surely_keeps_up(outcome.measures) for outcome in outcomes]
    return [all(runs[at : at + model.replications]) for at in range(0, len(runs), model.replications)]


def _problem(model: Model) -> dict[str, Any]:
    count = len(model.inputs)
    return {"num_vars": count, "names": [f"x{index}" for index in range(count)], "bounds": [[0.0, 1.0]] * count}


def _seed(model: Model) -> int:
    """Seed for SALib, never 0, which SALib takes for no seed."""
    return 1 + model.seed % (2**32 - 1)


def _trajectories(model: Model, budget: SampleBudget) -> np.ndarray:
    """The points of the screening. [N, inputs]"""
    from SALib.sample import morris as sampling

    found = sampling.sample(_problem(model), budget.trajectories, num_levels=LEVELS, seed=_seed(model))
    return np.asarray(found)


def _design(model: Model, budget: SampleBudget) -> np.ndarray:
    """The points of Sobol's indices. [N, inputs]"""
    from SALib.sample import sobol as sampling

    return np.asarray(sampling.sample(_problem(model), budget.samples, calc_second_order=False, seed=_seed(model)))


def _morris(model: Model, budget: SampleBudget, bench: Bench, audience: Audience) -> list[Measured]:
    from SALib.analyze import morris as analysis

    audience.stage("screening after Morris")
    problem, seed = _problem(model), _seed(model)
    points = _trajectories(model, budget)
    results = model.results(bench, points, audience)
    analysed = analysis.analyze(problem, points, results, num_levels=LEVELS, seed=seed)
    return _rows(analysed, mu="mu", mu_star="mu_star", mu_star95="mu_star_conf", sigma="sigma")


def _sobol(model: Model, budget: SampleBudget, bench: Bench, audience: Audience) -> list[Measured]:
    from SALib.analyze import sobol as analysis
    from scipy.special import ndtr, stdtrit

    audience.stage(f"first-order indices after Sobol for the {len(model.inputs)} inputs that matter")
    problem, seed = _problem(model), _seed(model)
    points = _design(model, budget)
    results = model.results(bench, points, audience)
    # for few samples: a bootstrap's variance is too small by (n - 1) / n, and Student's t is wider than the normal law
    errors = stdtrit(budget.samples - 1, 0.975) * math.sqrt(budget.samples / (budget.samples - 1))
    level = float(2.0 * ndtr(errors) - 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # indices of a result that never varies are NaN
        analysed = analysis.analyze(problem, results, calc_second_order=False, conf_level=level, seed=seed)
    return _rows(analysed, first="S1", first95="S1_conf", total="ST", total95="ST_conf")


def _rows(analysed: Mapping[str, Any], **columns: str) -> list[Measured]:
    """Results of SALib for each input, under the names of `InputEffect`."""
    table = [np.asarray(analysed[column], float).tolist() for column in columns.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*table, strict=True)]


def _ends(model: Model, bench: Bench, audience: Audience) -> list[Measured]:
    """Metric at both ends of each input, with all others as given."""
    audience.stage("each input at its ends, the others as given")
    seeds = [child_seed(model.seed, index) for index in range(model.replications)]
    cases = [model.scenario]
    for item in model.inputs:
        cases += [item.knob.turned(model.scenario, item.value(share)) for share in (0.0, 1.0)]
    outcomes = bench.outcomes([(case, seed) for case in cases for seed in seeds])
    values = np.array([of(outcome.measures, model.metric) for outcome in outcomes]).reshape(len(cases), -1)
    means = [of_mean(row, model.metric).mean for row in values]
    pairs = zip(means[1::2], means[2::2], strict=True)
    return [{"given": means[0], "at_low": low, "at_high": high} for low, high in pairs]
