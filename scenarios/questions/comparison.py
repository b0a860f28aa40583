"""Whether two things differ: paired differences over common random numbers, many comparisons in mind.

Of many comparisons some look like differences by chance alone. *Significant* is said so carefully that the chance of
even one wrong word in the whole table is 5 % at most (Holm, Scandinavian Journal of Statistics 6, 1979); an interval is
95 % by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from scenarios.files.documents import Number
from scenarios.questions.intervals import of_difference, p_value

LEVEL = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Of a metric, from the first case: the paired difference with half its 95 % interval, in the metric's own unit.

    share, share95: of the first case's mean. p_value: of no difference, this comparison alone (Student's t);
    p_adjusted: all comparisons in mind (Holm). All are None where a run had no results.
    """

    difference: Number = None
    difference95: Number = None
    share: Number = None
    share95: Number = None
    p_value: Number = None
    p_adjusted: Number = None

    def certain(self) -> bool:
        """Whether it is significant, with all comparisons in mind."""
        return self.p_adjusted is not None and self.p_adjusted < LEVEL

    def in_words(self, comparisons: int) -> str:
        """In a sentence's part."""
        if self.difference is None or self.difference95 is None or self.p_value is None:
            return "not comparable: runs without results"
        if self.difference == 0.0 and self.p_value == 1.0:
            return "the same"
        if self.certain():
            return f"significantly {'higher' if self.difference > 0 else 'lower'}"
        if self.p_value < LEVEL:
            return f"not significant among {comparisons} comparisons"
        return "not significant"


def changed(values: np.ndarray, first: np.ndarray, metric: str) -> Change:
    """From `first` to `values`, both [R] over the same runs; not adjusted yet."""
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
    """The same with all of them in mind (Holm)."""
    p_values = [each.p_value for each in changes if each.p_value is not None]
    found = iter(holm(p_values))
    return [each if each.p_value is None else replace(each, p_adjusted=next(found)) for each in changes]


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values, in order: below a level, the chance of even one wrong rejection is below it, too."""
    order = np.argsort(p_values, kind="stable")
    steps = [min(1.0, (len(p_values) - rank) * p_values[index]) for rank, index in enumerate(order)]
    found = np.empty(len(p_values))
    found[order] = np.maximum.accumulate(steps) if steps else []
    return [float(each) for each in found]
