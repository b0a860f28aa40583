"""What could be run next so that an error becomes smaller, and what each would cost."""

from __future__ import annotations

import math
from dataclasses import dataclass

from twin.guards.effort import estimate
from twin.precision.extrapolation import FINER, Estimates, worst
from twin.precision.horizons import Lengths
from twin.scenario import RunSettings, Scenario
from twin.wiring.resolution import resolution

MOST_STEPS = 5e7
"""More steps than these are not taken: they are minutes."""
FAST_STEP = 2.5
"""What a step of a fast run costs, in steps of an exact one."""
CHANCE_SHARE = 0.8
"""Of the error asked for, what the model leaves out apart, that chance may be, and ..."""
GRAIN_SHARE = 0.6
"""... segments: both together are all of it."""


@dataclass(frozen=True, slots=True)
class Question:
    """A scenario, and how precisely its metrics are to be known: the error as a share of each.

    most_steps: of an exact run, or as much work as these.
    """

    scenario: Scenario
    precision: float
    most_steps: float = MOST_STEPS

    def steps(self, settings: RunSettings) -> float:
        """The effort of a run, in steps of an exact one."""
        steps = estimate(self.scenario, settings, self.scenario.events).steps
        return steps if settings.fidelity == "exact" else FAST_STEP * steps

    def segments(self, settings: RunSettings) -> int:
        """Into how many segments a fast run groups tuples (of all sources, a replica each)."""
        span_s = resolution(self.scenario, settings).span_s
        return math.ceil(settings.horizon_s * len(self.scenario.query.sources) / span_s - 1e-6)


@dataclass(frozen=True, slots=True)
class Plan:
    """Runs in order, the finest last. what: it is in words. how: by hand. why: it was chosen.

    steps: of all of them, or as much work, in steps of an exact run.
    """

    runs: tuple[RunSettings, ...]
    steps: float
    what: str
    how: str
    why: str


@dataclass(frozen=True, slots=True)
class Standing:
    """How far it has come. settings: of the last run. found: what is known. single: by the last run alone.

    recurs: whether the job is the same all the time, though it may fall behind.
    """

    question: Question
    settings: RunSettings
    found: Estimates
    single: Estimates
    lengths: Lengths
    recurs: bool

    @property
    def room(self) -> float:
        """Share that chance and segments may be off by, since the model is, too; 0 if that alone is too much."""
        return math.sqrt(max(0.0, self.question.precision**2 - worst(self.found, "model") ** 2))

    def horizon_s(self, estimates: Estimates, room: float) -> float | None:
        """Of a run that leaves no more to chance than may be, given what `estimates` do; None if there is none."""
        measured_s = self.settings.horizon_s - self.lengths.start_s
        chance = worst(estimates, "statistical") / room
        if not math.isfinite(chance):
            return None
        found_s = self.lengths.horizon_s(measured_s * (chance / CHANCE_SHARE) ** 2)
        if found_s is None and chance <= 1.0:  # little room for segments, but some
            return self.settings.horizon_s
        return found_s


def beginning(question: Question) -> Plan:
    """A fast run as fine as it is by itself, or an exact one where that is no more work."""
    fast, exact = (question.scenario.run.model_copy(update={"fidelity": each}) for each in ("fast", "exact"))
    if question.steps(exact) <= question.steps(fast):
        return _exact(question, exact, "it is no more work than a fast one")
    return Plan((fast,), question.steps(fast), "a fast run", "", "one fast run")


def plans(standing: Standing) -> list[Plan]:
    """All that would help; none if nothing does."""
    if standing.settings.fidelity == "exact":
        horizon_s = standing.horizon_s(standing.found, standing.room)
        if horizon_s is None or horizon_s <= standing.settings.horizon_s:
            return []
        longer = standing.settings.model_copy(update={"horizon_s": horizon_s})
        return [_exact(standing.question, longer, "a shorter one left too much to chance")]
    fast, horizon_s = _next_fast(standing), standing.horizon_s(standing.single, standing.question.precision)
    found = [] if fast is None else [fast]
    if horizon_s is not None:
        exact = standing.settings.model_copy(update={"fidelity": "exact", "segments": None, "horizon_s": horizon_s})
        why = "fast runs leave out too much for this" if fast is None else "it is less work than the next fast run"
        found.append(_exact(standing.question, exact, why))
    return found


def _next_fast(standing: Standing) -> Plan | None:
    """The next fast run, finer or longer as need be; the second one is as long as the first."""
    question, settings = standing.question, standing.settings
    grain, room = worst(standing.found, "discretisation"), standing.room
    if not room:
        return None
    finer = FINER if grain > GRAIN_SHARE * room else 1
    horizon_s = standing.horizon_s(standing.found, room) if math.isfinite(grain) else settings.horizon_s
    if horizon_s is None:
        return None
    horizon_s = max(horizon_s, settings.horizon_s)
    segments = math.ceil(finer * question.segments(settings) * horizon_s / settings.horizon_s)
    counts = [segments] if horizon_s == settings.horizon_s else [math.ceil(segments / FINER), segments]
    runs = [settings.model_copy(update={"segments": max(100, each), "horizon_s": horizon_s}) for each in counts]
    return Plan(
        tuple(runs),
        sum(question.steps(each) for each in runs),
        f"a fast run of {segments:,} segments over {horizon_s:g} s",
        f"--horizon {horizon_s:g} --set run.segments={segments}",
        f"extrapolated from {math.ceil(segments / FINER):,} and {segments:,} segments over {horizon_s:g} s",
    )


def _exact(question: Question, settings: RunSettings, why: str) -> Plan:
    what = f"an exact run of {settings.horizon_s:g} s"
    how = f"--horizon {settings.horizon_s:g} --fidelity exact"
    return Plan((settings,), question.steps(settings), what, how, f"{what}: {why}")


def missing(standing: Standing) -> str:
    """What it would take, where nothing helps that may be done here."""
    metric, each = max(standing.found.items(), key=lambda item: item[1].share(item[1].statistical))
    chance = each.share(each.statistical)
    if not math.isfinite(chance):
        return "other seeds (--seed): how much of one run is chance is not known"
    often = (chance / CHANCE_SHARE / standing.question.precision) ** 2
    why = f"chance alone leaves ± {chance:.2g} of {metric}, whatever the segments"
    if not standing.recurs:
        return f"the mean of {math.ceil(often)} runs with other seeds (--seed): {why}"
    lengths = standing.lengths
    measured_s = often * (standing.settings.horizon_s - lengths.start_s)
    if lengths.steady:
        start_s = math.ceil(max(lengths.start_s, lengths.settled_s))
        by_hand = f"--set run.warmup_s={start_s} --horizon {start_s + measured_s:.3g}"
        return f"a run {often:.2g} times as long, after a warm-up ({by_hand}): {why}"
    return f"a run {often:.2g} times as long (--horizon {lengths.start_s + measured_s:.3g}): {why}"
