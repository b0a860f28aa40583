"""How long a run has to be for an error by chance, and between which lengths it tells the same."""

from __future__ import annotations

import math
from dataclasses import dataclass

from twin.deployment import Deployment
from twin.precision.steadiness import memory_s, slides_s
from twin.scenario import RunSettings

MANY = 20.0
"""A run is no shorter than so many windows and latencies."""
SETTLED = 3.0
"""After so many windows and latencies, a job that began empty is as it will be."""
START_SHARE = 0.25
"""Of the error asked for, that the start of a run may make of the difference between two lengths."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """Of runs of one job, in seconds. start_s: the end of the warm-up; the rest of a run is measured.

    given_s: the scenario's horizon. steady: whether others are as good, down to `least_s` of measuring; longer: and
    beyond the scenario's. beat_s: how often the longest window is evaluated, or a row of statistics ends. settled_s:
    a warm-up after which the job is as it will be.
    """

    start_s: float
    given_s: float
    steady: bool
    longer: bool
    least_s: float
    beat_s: float
    settled_s: float

    def horizon_s(self, wanted_s: float) -> float | None:
        """The horizon for measuring so many seconds or a little more; None if it may not be so long.

        Windows are evaluated a whole number of times, or as often as in the scenario's own run.
        """
        given_s = self.given_s - self.start_s
        if not self.steady or max(wanted_s, self.least_s) >= given_s:
            if wanted_s <= given_s:
                return self.given_s
            if not self.longer:
                return None
        beats = math.ceil(max(wanted_s, self.least_s) / self.beat_s - 1e-9)
        return self.start_s + max(1, beats) * self.beat_s


def lengths(
    deployment: Deployment, settings: RunSettings, latency_s: float, precision: float, *, steady: bool
) -> Lengths:
    """Those in which T and latencies differ by a small share of `precision`, of a job that is steady or not.

    latency_s: the mean processing latency. A run that begins empty lacks the results of about a window and a latency,
    and one whose length is no multiple of a slide has one evaluation more or less: the longer, the smaller a part.
    """
    given_s = settings.horizon_s
    start_s = math.ceil(settings.warmup_s / settings.period_s - 1e-9) * settings.period_s
    long_s = memory_s(deployment) + latency_s
    slides = slides_s(deployment)
    lost_s = 0.0 if start_s >= SETTLED * long_s else long_s
    measured_s = given_s - start_s
    if slides and not math.isclose(measured_s / max(slides), round(measured_s / max(slides)), abs_tol=1e-6):
        lost_s += max(slides)
    share = START_SHARE * precision
    return Lengths(
        start_s=start_s,
        given_s=given_s,
        steady=steady,
        longer=steady and lost_s <= share * measured_s,
        least_s=max(MANY * long_s, lost_s / (share + lost_s / measured_s)),
        beat_s=max(slides) if slides else settings.period_s,
        settled_s=SETTLED * long_s,
    )
