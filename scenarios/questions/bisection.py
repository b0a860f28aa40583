"""Finds borders by bisection: the value up to which, or from which on, a condition holds, in several repetitions.

All repetitions take a step together, so that their runs can be made at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from scenarios.questions.ranges import significant

FAR = 1024.0
"""Factor on the start, up or down, at which a search without limits ends."""
DIGITS = 6
CHECKED_BESIDE = 4
"""Number of values on either side of a border that are tried to see whether there is another border."""
NEAR_ZERO = 1e-3
"""Share of the width of limits that enclose 0 that is the least scale of the tolerance: else no bracket near 0 would be
narrow enough."""

Ask = Callable[[Sequence[tuple[int, float]]], Sequence[bool]]
"""Function that tells for each (i, v) whether the condition holds in repetition i at value v."""
Aim = Callable[[int, float], float | None]
"""Function that estimates the border from a repetition and a value at which it failed; None if the run does not tell.
"""


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
    """Border in one repetition. good, bad: the nearest values at which the condition holds and fails.

    aim: the likely border by the last run that failed. Each is None if it is unknown.
    """

    good: float | None = None
    bad: float | None = None
    aim: float | None = None
    seen: dict[float, bool] = field(default_factory=dict)

    @property
    def found(self) -> bool:
        """Whether both sides are known."""
        return self.good is not None and self.bad is not None

    def note(self, value: float, holds: bool) -> None:
        """Remembers whether the condition held at a value, which must be nearer to the border than earlier ones."""
        self.seen[value] = holds
        if holds:
            self.good = value
        else:
            self.bad = value

    def middle(self, whole: bool) -> float:
        """Estimate of a border that is found; for whole numbers the last one at which the condition holds."""
        assert self.good is not None and self.bad is not None
        return self.good if whole else (self.good + self.bad) / 2


def search(
    ask: Ask, repetitions: Sequence[int], within: Range, aim: Aim = lambda _repetition, _value: None
) -> list[Border]:
    """Searches the border of each repetition; it is not `found` where the search reached the limits without one."""
    borders = {index: Border() for index in repetitions}
    while True:
        steps = [(index, _next(border, within)) for index, border in borders.items()]
        asked = [(index, value) for index, value in steps if value is not None]
        if not asked:
            return [*borders.values()]
        for (index, value), holds in zip(asked, ask(asked), strict=True):
            borders[index].note(value, holds)
            if not holds:
                borders[index].aim = aim(index, value)


def _next(border: Border, within: Range) -> float | None:
    """Next value to try; None if the border is known or there is none."""
    if not border.seen:
        return within.start
    if border.good is not None and border.bad is not None:
        return _between(border, border.good, border.bad, within)
    value = next(reversed(border.seen))
    up = border.seen[value] == within.upward  # towards the border
    limit = within.high if up else within.low
    step = limit if within.jumps else _stepped(value, up, within, len(border.seen))
    ahead = min(step, within.high) if up else max(step, within.low)
    if border.aim is not None and not up and within.low <= border.aim < value:
        ahead = min(ahead, max(within.low, _short(border.aim * (1 - within.tolerance / 2))))
    return None if ahead in border.seen else ahead


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
