"""Borders by bisection: up to where, or from where on, something holds; for several repetitions side by side.

Nothing here knows what is asked. All repetitions take a step together, so that their runs can be made at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

FAR = 1024.0
"""Times as much, or as little, as at the start: where a search without limits ends."""
DIGITS = 6
NEAR_ZERO = 1e-3
"""Where limits enclose 0, a border is no nearer to it than that share of them: else its bracket would never do."""

Ask = Callable[[Sequence[tuple[int, float]]], Sequence[bool]]
"""Whether it holds in repetition i at value v, for each (i, v)."""


@dataclass(frozen=True, slots=True)
class Range:
    """upward: it should hold below the border and fail above it, which is a maximum; else the other way round.

    tolerance: how narrow a border is bracketed, as a share of it. bounded: the limits were given, so they are looked at
    at once; else the search goes there by doubling.
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
    """Of one repetition. good, bad: the nearest values known to hold, and not to hold; None if there are none."""

    good: float | None = None
    bad: float | None = None
    seen: dict[float, bool] = field(default_factory=dict)

    @property
    def found(self) -> bool:
        """Whether both sides are known."""
        return self.good is not None and self.bad is not None

    def note(self, value: float, holds: bool) -> None:
        """Remembers what the search saw; each step is nearer to the border than those before."""
        self.seen[value] = holds
        if holds:
            self.good = value
        else:
            self.bad = value

    def middle(self, whole: bool) -> float:
        """The estimate; of whole numbers the last that holds. Only of borders that are found."""
        assert self.good is not None and self.bad is not None
        return self.good if whole else (self.good + self.bad) / 2


def search(ask: Ask, repetitions: int, within: Range) -> list[Border]:
    """The border of each repetition; not found where the limits are reached without one."""
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
    up = border.seen[value] == within.upward  # towards where it should be otherwise
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
    """To six digits: shorter to read, and far finer than any tolerance."""
    return round(value, DIGITS - 1 - math.floor(math.log10(abs(value)))) if value else 0.0


def spot_checks(within: Range, border: float, count: int = 4) -> list[float]:
    """Values on both sides of a border, up to the limits that were given, or to a tenth and double of it
    and of the start."""
    low, high = within.low, within.high
    if not within.bounded:
        low, high = max(low, min(within.start, border) / 10), min(high, 2 * max(within.start, border))
    below = [low + (border - low) * share / count for share in range(count)]
    above = [border + (high - border) * share / count for share in range(1, count + 1)]
    near = 2 * within.tolerance * abs(border)
    if within.whole:
        return sorted({float(round(each)) for each in (*below, *above)} - {border})
    return [_short(each) for each in (*below, *above) if abs(each - border) > near]


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
