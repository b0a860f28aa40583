"""Finds borders by bisection: the value up to which, or from which on, a condition holds, in several repetitions.

All repetitions take a step together, so that their runs can be made at once; `Prober` makes them, of the scenario with
a knob at a value. The condition is asked of allowed values only. A value that is not allowed is neither good nor bad:
it ends the range (no more subtasks than key groups), or lies between values that are allowed (a divisor is wanted).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from scenarios.executing import Audience
from scenarios.measures import Condition
from scenarios.questions.bench import Bench, Job
from scenarios.questions.kept import RunOutcome
from scenarios.questions.knobs import Knob, significant
from twin.errors import BadInput, TooMuch
from twin.job import compile
from twin.metrics import BACKPRESSURE_SHARE
from twin.quantities import written
from twin.randomness import child_seed
from twin.scenario import Scenario

FAR = 1024.0
"""Factor on the start, up or down, at which a search without limits ends."""
DIGITS = 6
CHECKED_BESIDE = 4
"""Number of values on either side of a border that are tried to see whether there is another border."""
NEAR_ZERO = 1e-3
"""Share of the width of limits that enclose 0 that is the least scale of the tolerance: else no bracket near 0 would be
narrow enough."""
LOOKED = 64
"""Least number of whole numbers beyond the last allowed one, up to its double, or down to its half, that are looked at
for another one."""
PARTS = 16
"""Number of parts of an interval at whose ends an allowed value that is no whole number is looked for."""

Ask = Callable[[Sequence[tuple[int, float]]], Sequence[bool]]
"""Function that tells for each (i, v) whether the condition holds in repetition i at value v."""
Allowed = Callable[[float], bool]
"""Function that tells whether the question can be asked of a value."""
Aim = Callable[[int, float], float | None]
"""Function that estimates the border from a repetition and a value at which it failed; None if the run does not tell.
"""

NO_AIM: Aim = lambda _repetition, _value: None  # noqa: E731


@dataclass(frozen=True, slots=True)
class Range:
    """Range of a search. upward: the condition holds below the border and fails above it (a maximum); else the reverse.

    tolerance: the largest width of a bracket, as a share of the border. bounded: whether the limits were given. whole:
    whether only whole numbers are tried. step: the first step from the start, as a share of it; each next value is
    twice as far from the start. jumps: whether the value after the start is a limit instead.
    """

    start: float
    low: float
    high: float
    upward: bool
    tolerance: float
    whole: bool = False
    bounded: bool = False
    step: float = 1.0
    jumps: bool = False

    def near(self, start: float) -> Range:
        """Range for a border that is expected at `start`: the first step is as long as a bracket may be wide."""
        if self.low <= 0.0 or not self.low <= start <= self.high:
            return self
        return replace(self, start=start, step=1.0 / start if self.whole else self.tolerance, jumps=False)


@dataclass
class Border:
    """Border in one repetition. good, bad: the nearest values at which the condition holds and fails. wall: the value
    beyond the last allowed one, where the search met the end of what is allowed.

    aim: the likely border by the last run that failed. Each is None if it is unknown. seen: whether the condition
    holds, by value, the first one asked first.
    """

    good: float | None = None
    bad: float | None = None
    wall: float | None = None
    aim: float | None = None
    seen: dict[float, bool] = field(default_factory=dict)

    @property
    def found(self) -> bool:
        """Whether both sides are known: the condition holds on one, and fails or cannot be asked on the other."""
        return self.good is not None and self.beyond is not None

    @property
    def beyond(self) -> float | None:
        """Nearest value on the far side of the border: where the condition fails, else where nothing is allowed."""
        return self.wall if self.bad is None else self.bad

    def note(self, value: float, holds: bool) -> None:
        """Remembers whether the condition held at a value, which must be nearer to the border than earlier ones."""
        self.seen[value] = holds
        if holds:
            self.good = value
        else:
            self.bad = value

    def middle(self, whole: bool) -> float:
        """Estimate of a border that is found: the last value at which the condition holds, for whole numbers and at the
        end of what is allowed."""
        assert self.good is not None
        return self.good if whole or self.bad is None else (self.good + self.bad) / 2


def search(
    ask: Ask,
    repetitions: Sequence[int],
    within: Range,
    aim: Aim = NO_AIM,
    allowed: Allowed = lambda _value: True,
) -> list[Border]:
    """Searches the border of each repetition; it is not `found` where the search reached the limits without one.
    Nothing is `seen` if no value is allowed."""
    borders = {index: Border() for index in repetitions}
    while True:
        steps = [(index, _next(border, within, allowed)) for index, border in borders.items()]
        asked = [(index, value) for index, value in steps if value is not None]
        if not asked:
            return [*borders.values()]
        for (index, value), holds in zip(asked, ask(asked), strict=True):
            borders[index].note(value, holds)
            if not holds:
                borders[index].aim = aim(index, value)


def _next(border: Border, within: Range, allowed: Allowed) -> float | None:
    """Next value to try; None if the border is known or there is none. Notes the end of what is allowed."""
    if not border.seen:
        return _nearest(within.start, within.low, within.high, within.whole, allowed)
    if border.good is not None and border.bad is not None:
        value = _between(border, border.good, border.bad, within)
        low, high = sorted((border.good, border.bad))
        return None if value is None else _inside(value, low, high, within.whole, allowed)
    value = next(reversed(border.seen))
    up = border.seen[value] == within.upward  # towards the border
    limit = within.high if up else within.low
    step = limit if within.jumps else _stepped(value, up, within, len(border.seen))
    ahead = min(step, within.high) if up else max(step, within.low)
    if border.aim is not None and not up and within.low <= border.aim < value:
        ahead = min(ahead, max(within.low, _short(border.aim * (1 - within.tolerance / 2))))
    if ahead in border.seen:
        return None
    if allowed(ahead):
        return ahead
    last, wall = _end(value, ahead, within, allowed)
    if last != value:
        return last
    further = _further(value, limit, allowed) if within.whole else None
    border.wall = wall if further is None else None
    return further


def _end(value: float, ahead: float, within: Range, allowed: Allowed) -> tuple[float, float]:
    """Last allowed value from `value`, which is allowed, towards `ahead`, which is not, and the next one beyond."""
    while True:
        middle = (value + ahead) // 2 if within.whole else _short((value + ahead) / 2)
        narrow = 1.0 if within.whole else within.tolerance * max(abs(value), abs(ahead))
        if abs(ahead - value) <= narrow or middle in (value, ahead):
            return value, ahead
        value, ahead = (middle, ahead) if allowed(middle) else (value, middle)


def _further(value: float, limit: float, allowed: Allowed) -> float | None:
    """Next allowed whole number beyond `value`, in the direction of `limit`; None if there is none up to its double, or
    down to its half."""
    up = limit > value
    last = min(limit, value + max(LOOKED, value)) if up else max(limit, value - max(LOOKED, value // 2))
    side = 1 if up else -1
    return next(
        (float(each) for each in range(int(value) + side, int(last) + side, side) if allowed(float(each))), None
    )


def _nearest(value: float, low: float, high: float, whole: bool, allowed: Allowed) -> float | None:
    """Allowed value nearest to `value`, from low to high; None if none is found."""
    return next((each for each in _outward(value, low, high, whole) if allowed(each)), None)


def _inside(value: float, low: float, high: float, whole: bool, allowed: Allowed) -> float | None:
    """Allowed value nearest to `value`, and strictly between low and high."""
    return _nearest(value, low, high, whole, lambda each: low < each < high and allowed(each))


def _outward(value: float, low: float, high: float, whole: bool) -> Iterable[float]:
    """Yields values from low to high, those nearer to `value` first: whole numbers, or ends of parts."""
    yield value
    step, far = 1.0 if whole else (high - low) / PARTS, max(value - low, high - value)
    for count in range(1, 1 + math.ceil((min(far, max(LOOKED, value + 1.0)) if whole else far) / step)):
        yield from (each for each in (value - count * step, value + count * step) if low <= each <= high)


def _stepped(value: float, up: bool, within: Range, steps: int) -> float:
    """Value after `steps` steps from the start, each twice as far from it as the one before."""
    factor = 1 + within.step * 2.0 ** (steps - 1)
    ahead = within.start * factor if up else within.start / factor
    if not within.whole:
        return _short(ahead)
    return float(max(value + 1, round(ahead)) if up else min(value - 1, math.floor(ahead)))


def _between(border: Border, good: float, bad: float, within: Range) -> float | None:
    if within.whole:
        return None if abs(bad - good) <= 1 else (good + bad) // 2
    least = NEAR_ZERO * (within.high - within.low) if within.low <= 0.0 else 0.0
    if abs(bad - good) <= within.tolerance * max(abs(good), abs(bad), least):
        return None
    low, high = sorted((good, bad))
    for side in (-1, 1) if border.aim is not None and border.aim > 0.0 else ():
        value = _short((border.aim or 0.0) * (1 + side * within.tolerance / 2))
        if low < value < high:
            return value
    return _short((good + bad) / 2)


def _short(value: float) -> float:
    """Value rounded to six digits, far finer than any tolerance and shorter to read."""
    return significant(value, DIGITS)


def spot_checks(within: Range, border: float) -> list[float]:
    """Values on both sides of a border: up to the limits, if they were given, else from a tenth of the smaller to twice
    the larger of border and start."""
    low, high = within.low, within.high
    if not within.bounded:
        low, high = max(low, min(within.start, border) / 10), min(high, 2 * max(within.start, border))
    below = [low + (border - low) * share / CHECKED_BESIDE for share in range(CHECKED_BESIDE)]
    above = [border + (high - border) * share / CHECKED_BESIDE for share in range(1, CHECKED_BESIDE + 1)]
    near = 2 * within.tolerance * abs(border)
    if within.whole:
        return sorted({float(round(value)) for value in (*below, *above)} - {border})
    return [_short(value) for value in (*below, *above) if abs(value - border) > near]


def broken(seen: dict[float, bool], upward: bool) -> tuple[float, float] | None:
    """Two values of one repetition that contradict a single border: the condition fails at the first, and holds again

    beyond it, at the second. None if there are none.
    """
    holding = [value for value, holds in seen.items() if holds]
    failing = [value for value, holds in seen.items() if not holds]
    if not holding or not failing:
        return None
    fails, holds = (min(failing), max(holding)) if upward else (max(failing), min(holding))
    return (fails, holds) if (fails < holds) == upward else None


RATES = ("load", "rate_per_s")
"""Endings of names of knobs that change the rates of sources."""
LONG_S = 10.0
"""CPU seconds of runs, together, from which on progress is shown; also of the first runs, whose time is not known."""


@dataclass
class Prober:
    """Makes the runs that a search asks for, and remembers why a value gave no valid scenario, or none that runs.

    made: values of which there is a run.
    """

    scenario: Scenario
    knob: Knob
    condition: Condition
    bench: Bench
    audience: Audience
    seed: int
    refused: dict[float, str] = field(default_factory=dict)
    cases: dict[float, Scenario | None] = field(default_factory=dict)
    made: set[float] = field(default_factory=set)

    def search(self, repetitions: Sequence[int], within: Range, ask: Ask | None = None) -> list[Border]:
        """Border of each repetition, by runs, or by `ask`. Raises BadInput if no value gives a valid scenario."""
        if ask is None:
            borders = search(self.ask, repetitions, within, self.aim, self.allowed)
        else:
            borders = search(ask, repetitions, within, NO_AIM, self.valid)
        if not any(border.seen for border in borders):
            raise BadInput(next(iter(self.refused.values())))
        return borders

    def refusal(self, borders: Sequence[Border]) -> str | None:
        """Reason why nothing is allowed beyond the first border that is, or would be, at the end of what is allowed."""
        return next((self.refused.get(border.wall) for border in borders if border.wall is not None), None)

    def ask(self, asked: Sequence[tuple[int, float]]) -> list[bool]:
        """Whether the condition holds, for each (repetition, value); all values give valid scenarios."""
        holds = [self.condition.holds(outcome.measures) for outcome in self.outcomes(asked)]
        self.audience.stage(_told(asked, holds))
        return holds

    def outcomes(self, asked: Sequence[tuple[int, float]]) -> list[RunOutcome]:
        """Outcome for each (repetition, value); all values give valid scenarios."""
        found = self._made([(self.case(value), child_seed(self.seed, index)) for index, value in asked])
        self.made.update(value for _, value in asked)
        return found

    def aim(self, index: int, value: float) -> float | None:
        """Likely border by a run at `value` that did not keep up: the rate of which it would read 99 %.

        None unless the question is about the rates at which the job keeps up.
        """
        about_rates = self.condition.metrics == {"backpressured"} and self.knob.name.endswith(RATES)
        if not about_rates:
            return None
        scenario, outcome = self.case(value), self.outcomes([(index, value)])[0]
        offered = sum(law.mean_rate_per_s for law in scenario.workload.arrivals.values())
        read = 1.0 - outcome.measures["backpressure_per_s"] / max(offered, 1e-300)
        return value * read / (1.0 - BACKPRESSURE_SHARE)

    def _made(self, jobs: Sequence[Job]) -> list[RunOutcome]:
        """Makes the runs, and shows progress if they take long."""
        if len(jobs) == 1 or (self.bench.took_s(self.bench.missing(jobs)) or LONG_S) < LONG_S:
            return self.bench.outcomes(jobs)
        with self.audience.progress("runs") as report:
            return self.bench.outcomes(jobs, report)

    def valid(self, value: float) -> bool:
        """Whether the scenario is valid with the knob at `value`."""
        return self.at(value) is not None

    def allowed(self, value: float) -> bool:
        """Whether the scenario is valid with the knob at `value`, and its run does not take too much: that is tried,
        unless there are runs on both sides of the value."""
        if self.valid(value) and not (self.made and min(self.made) <= value <= max(self.made)):
            try:
                self.outcomes([(0, value)])
            except TooMuch as error:
                self.cases[value], self.refused[value] = None, str(error)
        return self.valid(value)

    def case(self, value: float) -> Scenario:
        """Scenario with the knob at `value`, which is allowed."""
        found = self.at(value)
        assert found is not None, self.refused[value]
        return found

    def at(self, value: float) -> Scenario | None:
        """Scenario with the knob at `value`; None if that is no valid scenario, or its run takes too much."""
        if value not in self.cases:
            try:
                case = self.knob.turned(self.scenario, int(value) if float(value).is_integer() else value)
                compile(case).require_pairs()
                self.cases[value] = case
            except BadInput as error:
                self.cases[value], self.refused[value] = None, str(error)
        return self.cases[value]


def _told(asked: Sequence[tuple[int, float]], holds: Sequence[bool]) -> str:
    low, high = min(value for _, value in asked), max(value for _, value in asked)
    where = f"at {written(low, 6)}" if low == high else f"at {written(low, 6)} to {written(high, 6)}"
    return f"{where}: holds in {sum(holds)} of {len(asked)} runs"
