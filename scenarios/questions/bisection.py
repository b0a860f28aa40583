"""Finds borders by bisection: up to which value, or from which value on, something holds, in several repetitions.

This file does not know what is asked. All repetitions take a step together, so that their runs can be made at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from scenarios.questions.ranges import significant

FAR = 1024.0
"""A search without limits ends at so many times the start, or at the start divided by it."""
DIGITS = 6
CHECKED_BESIDE = 4
"""Values on either side of a border at which it is looked whether there is another."""
NEAR_ZERO = 1e-3
"""Where the limits enclose 0, the tolerance is a share of at least so much of their width: else no bracket near 0
would be narrow enough."""

Ask = Callable[[Sequence[tuple[int, float]]], Sequence[bool]]
"""For each (i, v): whether the condition holds in repetition i at value v."""
Aim = Callable[[int, float], float | None]
"""For a repetition and a value at which it failed: the likely border; None if the run does not tell."""


@dataclass(frozen=True, slots=True)
class Range:
    """upward: the condition holds below the border and fails above it, so that a maximum is sought; else the reverse.

    tolerance: the largest width of a bracket, as a share of the border. bounded: whether the limits were given. whole:
    whether only whole numbers are tried. step: the first step from the start, as a share of it; each one is twice as
    far from the start as the one before. jumps: whether it tries a limit next instead.
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
        """The range for a border that is expected at `start`: the first step is as long as a bracket may be wide."""
        if self.low <= 0.0 or not self.low <= start <= self.high:
            return self
        return replace(self, start=start, step=1.0 / start if self.whole else self.tolerance, jumps=False)


@dataclass
class Border:
    """The border of one repetition. good, bad: the nearest values at which the condition holds and fails.

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
        """Remembers whether it held at a value; each step of the search is nearer to the border than those before."""
        self.seen[value] = holds
        if holds:
            self.good = value
        else:
            self.bad = value

    def middle(self, whole: bool) -> float:
        """The estimate of a border that is found; for whole numbers the last one at which it holds."""
        assert self.good is not None and self.bad is not None
        return self.good if whole else (self.good + self.bad) / 2


def search(
    ask: Ask, repetitions: Sequence[int], within: Range, aim: Aim = lambda _repetition, _value: None
) -> list[Border]:
    """The border of each repetition; it is not `found` where the search reached the limits without one."""
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
    """The next value to try; None if the border is known or there is none."""
    if not border.seen:
        return within.start
    if border.good is not None and border.bad is not None:
        return _between(border, border.good, border.bad, within)
    value = next(reversed(border.seen))
    up = border.seen[value] == within.upward  # towards where the answer should change
    limit = within.high if up else within.low
    step = limit if within.jumps else _stepped(value, up, within, len(border.seen))
    ahead = min(step, within.high) if up else max(step, within.low)
    if border.aim is not None and not up and within.low <= border.aim < value:
        ahead = min(ahead, max(within.low, _short(border.aim * (1 - within.tolerance / 2))))
    return None if ahead in border.seen else ahead


def _stepped(value: float, up: bool, within: Range, steps: int) -> float:
    """The value after `steps` steps from the start, each twice as far from it as the one before."""
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
    """The value in six digits, which is far finer than any tolerance and shorter to read."""
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
    """Two values of one repetition that contradict a single border: where it fails and, beyond, where it holds.

    None if there are none.
    """
    holding = [value for value, holds in seen.items() if holds]
    failing = [value for value, holds in seen.items() if not holds]
    if not holding or not failing:
        return None
    fails, holds = (min(failing), max(holding)) if upward else (max(failing), min(holding))
    return (fails, holds) if (fails < holds) == upward else None
