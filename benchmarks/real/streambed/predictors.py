"""The largest rate of events that a plan sustains: by arithmetic, by the rate model, and by exact runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import t as student

from benchmarks.real.streambed.costs import Calibration, slowest_per_s
from benchmarks.real.streambed.jobs import AFFORDED, PROBE, Plan, Settings, scenario
from benchmarks.real.streambed.queries import QUERIES, SOURCE
from scenarios.calibration.calibrate import LEVEL
from scenarios.executing import Processes
from scenarios.questions.bench import Bench
from scenarios.questions.bisection import Range, search
from scenarios.questions.kept import Kept
from scenarios.questions.prediction import measures_predicted
from twin.errors import BadInput

FINE, COARSE = 0.005, 0.02
"""Widths of the brackets of rates, as shares: by the rate model, and by exact runs."""
FAR = 32.0
"""Factor from the rate at which a search begins to its ends."""
LEAST_PER_S, LEAST_EACH_PER_S, LEAST_BY_CHANNEL_PER_S = 10_000.0, 30.0, 0.5
"""Rates to which a run is thinned: of events in all; of records into each subtask of sources and keyed operators, so
that chance matters little; and into each channel from the sources, as a channel holds a record or two however thin they
are, which hides an overload for as long."""


@dataclass(frozen=True)
class Predicted:
    """Largest rates of events a second. slowest: by the slowest operator; with_groups: the same with key groups;
    at_once: by the rate model, with its interval; exact: by runs, None if none were asked for."""

    slowest_per_s: float
    with_groups_per_s: float
    at_once_per_s: float
    interval_per_s: tuple[float, float]
    exact_per_s: float | None = None


def predicted(plan: Plan, told: Calibration, kept: Kept | None, settings: Settings = PROBE) -> Predicted:
    """All predictions for a plan. kept: what was simulated so far, where runs are wanted; None: no exact runs."""
    costs = told.costs_us(plan.density)
    with_groups = slowest_per_s(told, plan.parallelism, costs, plan.key_groups)
    middle = at_once_per_s(plan, told, costs, with_groups, settings)
    draws = [at_once_per_s(plan, told, each, middle, settings) for each in told.draws_us(plan.density)]
    return Predicted(
        slowest_per_s(told, plan.parallelism, costs),
        with_groups,
        middle,
        interval(middle, draws),
        None if kept is None else exact_per_s(plan, told, middle, kept, settings),
    )


def at_once_per_s(
    plan: Plan, told: Calibration, costs_us: dict[str, float], start_per_s: float, settings: Settings = PROBE
) -> float:
    """Largest rate by the rate model, for runs that last as long as the measured ones: buffers take what is too much
    for a while."""

    def holds(rate_per_s: float) -> bool:
        return not measures_predicted(scenario(plan, told, costs_us, rate_per_s, 1.0, settings))["backpressured"]

    return _border(holds, start_per_s, FINE)


def exact_per_s(plan: Plan, told: Calibration, start_per_s: float, kept: Kept, settings: Settings) -> float:
    """Largest rate that exact runs sustain, as the authors' search counts: 99 % of what is offered is taken."""
    costs = told.costs_us(plan.density)
    if settings.horizon_s > AFFORDED[1]:
        settings = replace(settings, warmup_s=AFFORDED[0], horizon_s=AFFORDED[1])
    with Bench(Processes(1), kept=kept) as bench:

        def holds(rate_per_s: float) -> bool:
            case = scenario(plan, told, costs, rate_per_s, thin_of(plan, told, start_per_s), settings)
            return not bench.outcomes([(case, 0)])[0].measures["backpressured"]

        return _border(holds, start_per_s, COARSE)


def thin_of(plan: Plan, told: Calibration, rate_per_s: float) -> float:
    """Real records that a simulated one stands for, at rates near this one."""
    keyed = [step.name for step in QUERIES[plan.query] if step.keyed == "by record"]
    events = max(plan.parallelism[name] / told.in_share.get(name, 1.0) for name in (SOURCE, *keyed))
    channels = plan.parallelism[SOURCE] * max(
        plan.parallelism[step.name] for step in QUERIES[plan.query] if SOURCE in step.inputs
    )
    return max(1.0, rate_per_s / max(LEAST_PER_S, LEAST_EACH_PER_S * events, LEAST_BY_CHANNEL_PER_S * channels))


def interval(middle_per_s: float, draws_per_s: Sequence[float]) -> tuple[float, float]:
    """Interval that holds LEVEL of new runs, if only costs are off, as those of the runs were: Student's t, in logs."""
    spread = float(np.log(draws_per_s).std(ddof=1)) * math.sqrt(1.0 + 1.0 / len(draws_per_s))
    reach = math.exp(spread * float(student.ppf((1.0 + LEVEL) / 2.0, len(draws_per_s) - 1)))
    return middle_per_s / reach, middle_per_s * reach


def _border(holds: Callable[[float], bool], start_per_s: float, width: float) -> float:
    """Rate up to which a condition holds, by bisection from a likely one, within a factor FAR."""
    within = Range(start_per_s, start_per_s / FAR, start_per_s * FAR, True, width, step=4 * width)
    border = search(lambda asked: [holds(rate) for _, rate in asked], [0], within)[0]
    if not border.found:
        raise BadInput(
            f"no rate within a factor {FAR:g} of {start_per_s:,.0f} events a second is the largest; check the costs"
        )
    return border.middle(whole=False)
