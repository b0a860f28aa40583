"""Finds borders by bisection: up to which value, or from which value on, something holds, in several repetitions.

This file does not know what is asked. All repetitions take a step together, so that their runs can be made at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

FAR = 1024.0
"""A search without limits ends at so many times the start, or at the start divided by it."""
DIGITS = 6
NEAR_ZERO = 1e-3
"""Where the limits enclose 0, the tolerance is a share of at least so much of their width: else no bracket near 0
would be narrow enough."""

Ask = Callable[[Sequence[tuple[int, float]]], Sequence[bool]]
"""For each (i, v): whether the condition holds in repetition i at value v."""


@dataclass(frozen=True, slots=True)
class Range:
    """upward: the condition holds below the border and fails above it, so that a maximum is sought; else the reverse.

    tolerance: how narrow a bracket must be, as a share of the border. bounded: the limits were given, so the search
    tries them at once; else it goes towards them by doubling. whole: only whole numbers are tried.
    """

    start: float
    low: float
    high: float
    upward: bool
    tolerance: float
    whole: bool = False
    bounded: bool = False


@dataclass
class Border:
    """The border of one repetition. good, bad: the nearest values known to hold and to fail; None if there are none."""

    good: float | None = None
    bad: float | None = None
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


def search(ask: Ask, repetitions: int, within: Range) -> list[Border]:
    """The border of each repetition; it is not `found` where the search reached the limits without one."""
    borders = [Border() for _ in range(repetitions)]
    while True:
        steps = [(index, _next(border, within)) for index, border in enumerate(borders)]
        asked = [(index, value) for index, value in steps if value is not None]
        if not asked:
            return borders
        for (index, value), holds in zip(asked, ask(asked), strict=True):
            borders[index].note(value, holds)


def _next(border: Border, within: Range) -> float | None:
    """Where to look next; None if there is nothing more to find out."""
    if not border.seen:
        return within.start
    if border.good is not None and border.bad is not None:
        return _between(border.good, border.bad, within)
    value = next(reversed(border.seen))
    up = border.seen[value] == within.upward  # towards where the answer should change
    limit = within.high if up else within.low
    step = limit if within.bounded else _doubled(value, up, within)
    ahead = min(step, within.high) if up else max(step, within.low)
    return None if ahead in border.seen else ahead


def _doubled(value: float, up: bool, within: Range) -> float:
    if within.whole:
        return 2 * value if up else value // 2
    return _short(value * 2 if up else value / 2)


def _between(good: float, bad: float, within: Range) -> float | None:
    if within.whole:
        return None if abs(bad - good) <= 1 else (good + bad) // 2
    least = NEAR_ZERO * (within.high - within.low) if within.low <= 0.0 else 0.0
    if abs(bad - good) <= within.tolerance * max(abs(good), abs(bad), least):
        return None
    return _short((good + bad) / 2)


def _short(value: float) -> float:
    """Rounds to six digits, which is far finer than any tolerance and shorter to read."""
    return round(value, DIGITS - 1 - math.floor(math.log10(abs(value)))) if value else 0.0


def spot_checks(within: Range, border: float, count: int = 4) -> list[float]:
    """Values on both sides of a border: up to the limits, if they were given, else from a tenth of the smaller to twice
    the larger of border and start."""
    low, high = within.low, within.high
    if not within.bounded:
        low, high = max(low, min(within.start, border) / 10), min(high, 2 * max(within.start, border))
    below = [low + (border - low) * share / count for share in range(count)]
    above = [border + (high - border) * share / count for share in range(1, count + 1)]
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
