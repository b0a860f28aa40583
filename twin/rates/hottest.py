"""The busiest replica of an operator whose keys are uneven, beside all others, which are taken as alike.

Where it can't keep up it holds sources back for all of them: its channels are full, and the others' hardly ever hold a
tuple. Of a window's results it has fewer than of the tuples, as these are of few groups. Letters at the end of a name
are the axes of `twin.rates.layout`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Self

import numpy as np

from twin.rates.layout import Layout
from twin.rates.load import Load


class Hottest(NamedTuple):
    """more, less: input of the busiest replica, and of each other, over the mean of all. share: of what leaves the
    operator, what comes from the busiest. [O, N] each"""

    more: np.ndarray
    less: np.ndarray
    share: np.ndarray

    def of(self, rows: np.ndarray | list[int]) -> Self:
        """Of some operators."""
        return self._replace(more=self.more[rows], less=self.less[rows], share=self.share[rows])

    def mean(self, load: np.ndarray, law: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Over what leaves, of what follows from a replica's load. load: of all."""
        return self.share * law(load * self.more) + (1.0 - self.share) * law(load * self.less)


def hottest(layout: Layout, found: Load) -> Hottest | None:
    """Those of all operators; None if keys are even."""
    more = layout.crowding_on
    if more is None:
        return None
    share = more / layout.replicas_on
    less = (1.0 - share) * layout.replicas_on / np.maximum(layout.replicas_on - 1.0, 1.0)
    share = np.minimum(share, 1.0)
    assert layout.crowding is not None
    for o, placed in layout.crowding.placed.items():
        spread = layout.job.spreads.get(layout.job.names[o])
        if spread is None or o in layout.job.slides:
            continue
        groups = spread.by_stratum(found.window_on[o], layout.replicas_on[o])
        share[o] = (groups * placed).sum(axis=0) / np.maximum(groups.sum(axis=0), 1e-12)
    return Hottest(more, less, share)
