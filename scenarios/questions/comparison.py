"""Whether two things differ: paired differences over common random numbers, adjusted for many comparisons.

Of many comparisons some look like differences by chance alone. A change is called *significant* only if the chance of
even one wrong such claim in the whole table is at most 5 % (Holm, Scandinavian Journal of Statistics 6, 1979). An
interval, in contrast, has 95 % by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from scenarios.files.documents import Number
from scenarios.questions.intervals import of_difference, p_value

LEVEL = 0.05
LEAST_SHARE = 0.0005
"""A smaller change is 0.0 % in all tables, so it is not called significant, however well it is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """How a metric differs from the first case: the paired difference and half its 95 % interval, in the metric's unit.

    share, share95: the same as shares of the first case's mean. p_value: of this comparison alone (Student's t), if
    there were no difference; p_adjusted: adjusted for all comparisons (Holm). All are None where a run had no results.
    """

    difference: Number = None
    difference95: Number = None
    share: Number = None
    share95: Number = None
    p_value: Number = None
    p_adjusted: Number = None

    def certain(self) -> bool:
        """Whether it is significant, adjusted for all comparisons, and not too small to be shown."""
        return self.p_adjusted is not None and self.p_adjusted < LEVEL and not self._tiny()

    def _tiny(self) -> bool:
        return self.share is not None and abs(self.share) < LEAST_SHARE

    def in_words(self, comparisons: int) -> str:
        """The change as a part of a sentence."""
        if self.difference is None or self.difference95 is None or self.p_value is None:
            return "not comparable: runs without results"
        if self.difference == 0.0 and self.p_value == 1.0:
            return "the same"
        if self.certain():
            return f"significantly {'higher' if self.difference > 0 else 'lower'}"
        if self._tiny():
            return "less than 0.1 % apart"
        if self.p_value < LEVEL:
            return f"not significant among {comparisons} comparisons"
        return "not significant"


def changed(values: np.ndarray, first: np.ndarray, metric: str) -> Change:
    """The change from `first` to `values`, both [R] over the same runs; not adjusted yet."""
    if not (np.all(np.isfinite(values)) and np.all(np.isfinite(first))):
        return Change()
    apart, scale = of_difference(values, first, metric), abs(float(np.mean(first)))
    half = apart.half_width95
    return Change(
        difference=apart.mean,
        difference95=half,
        share=apart.mean / scale if scale else None,
        share95=half / scale if scale and half is not None else None,
        p_value=None if half is None else p_value(values - first, apart.grain),
    )


def adjusted(changes: Sequence[Change]) -> list[Change]:
    """The same changes with `p_adjusted`, for all of them together (Holm)."""
    p_values = [change.p_value for change in changes if change.p_value is not None]
    remaining = iter(holm(p_values))
    return [change if change.p_value is None else replace(change, p_adjusted=next(remaining)) for change in changes]


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values, in order. Who rejects those below a level is wrong even once with at most that chance."""
    order = np.argsort(p_values, kind="stable")
    steps = [min(1.0, (len(p_values) - rank) * p_values[index]) for rank, index in enumerate(order)]
    adjusted_p = np.empty(len(p_values))
    adjusted_p[order] = np.maximum.accumulate(steps) if steps else []
    return [float(value) for value in adjusted_p]
