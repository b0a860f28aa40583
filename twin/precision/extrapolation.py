"""What two fast runs of different fineness say together: a value without segments, and how far off it may be.

What segments hide is in proportion to their span, to first order: four times finer leaves a quarter of it, so that a
third of the difference of two such runs is still to come (Richardson's extrapolation). That is not all: a fast run
draws waits and contents of windows from their expected sizes, however short its segments are. How far off that is was
measured against exact runs; where a run says that it is unsure, nothing is known of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from twin.engine.measure.standard_errors import ERRORS
from twin.guards.unsure import unsure
from twin.metrics import REGRESSION_METRICS
from twin.run import Run

FINER = 4
"""Times as many segments as the run before."""
MODEL_SHARES = {"throughput_per_s": 0.03, "processing_latency_s": 0.1, "e2e_latency_s": 0.1}
"""Of fast runs that do not say that they are unsure, nine in ten differ from exact ones by no more, chance apart:
random ordinary jobs, ones on crowded hosts, and Costream's. Four times finer segments leave as much."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A metric with its errors, all in its own unit: results a second, or seconds.

    discretisation: by segments; None if there is only one fast run. statistical: by chance, two standard errors; None
    if it is not known. model: by what fast runs leave out besides; 0 of exact ones, None of unsure ones.
    """

    value: float
    discretisation: float | None
    statistical: float | None
    model: float | None

    @property
    def error(self) -> float:
        """All together, as independent errors add up; inf if one is not known."""
        if self.discretisation is None or self.statistical is None or self.model is None:
            return math.inf
        return math.hypot(self.discretisation, self.statistical, self.model)

    def share(self, error: float | None) -> float:
        """An error as a share of the value; inf if it is not known."""
        if not error:
            return math.inf if error is None else 0.0
        return error / abs(self.value) if self.value else math.inf


Estimates = Mapping[str, Estimate]
"""By `REGRESSION_METRICS`; latencies are missing if nothing reached a sink."""
Scatter = Mapping[str, float]
"""By metric: the standard error of one run, from others with other seeds."""


def value(run: Run, metric: str) -> float | None:
    """T, mean Lp or mean Le of a run; None if nothing reached a sink."""
    found = getattr(run.metrics, metric)
    return found if found is None or isinstance(found, float | int) else float(found.mean)


def standard_error(run: Run, metric: str, scatter: Scatter) -> float | None:
    """By the run's own batches, or else by the scatter of other runs."""
    own = getattr(run.standard_errors, metric)
    return scatter.get(metric) if own is None else float(own)


def alone(run: Run, scatter: Scatter) -> dict[str, Estimate]:
    """The metrics of one run: without segments if it is exact, else with nothing known about what they hide."""
    exact, sure = run.manifest["fidelity"] == "exact", not unsure(run.warnings)
    found = {}
    for metric in REGRESSION_METRICS:
        mean, error = value(run, metric), standard_error(run, metric, scatter)
        if mean is not None:
            twice = None if error is None else ERRORS * error
            left_out = MODEL_SHARES[metric] * mean if sure else None
            found[metric] = Estimate(mean, 0.0 if exact else None, twice, 0.0 if exact else left_out)
    return found


def together(coarse: Run, fine: Run, scatter: Scatter, before: Estimates | None = None) -> dict[str, Estimate]:
    """The metrics extrapolated from a run and one that is `FINER` times finer, of the same length.

    before: what the pair before this one said; a quarter of the discretisation then is left at least. What the two
    differ by is in part chance, which counts as such.
    """
    found = {}
    for metric, single in alone(fine, scatter).items():
        first = value(coarse, metric)
        if first is None:
            found[metric] = single
            continue
        more = (single.value - first) / (FINER - 1)
        left, statistical = abs(more), None
        error, finer_error = (standard_error(run, metric, scatter) for run in (coarse, fine))
        if error is not None and finer_error is not None:
            by_chance = math.hypot(error, finer_error) / (FINER - 1)
            left = math.sqrt(max(0.0, more**2 - by_chance**2))
            statistical = ERRORS * math.hypot(error, FINER * finer_error) / (FINER - 1)
        if before and metric in before:
            left = max(left, (before[metric].discretisation or 0.0) / FINER)
        found[metric] = Estimate(single.value + more, left, statistical, single.model)
    return found


def worst(estimates: Estimates, cause: str = "error") -> float:
    """The largest of the errors as a share of its value: in all, or by one cause of them alone."""
    return max((each.share(getattr(each, cause)) for each in estimates.values()), default=math.inf)
