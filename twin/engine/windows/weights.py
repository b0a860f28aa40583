"""What tuples count for in a join's window: more or less than their number, as their keys would make them count.

Of two sides, tuples of frequent keys meet more tuples of the other: the weight is a Gamma variable with the number as
its mean. Of more sides, there are keys that meet by chance in two of them, too. So the weight is dealt among a few
classes, which stand for the keys: a combination counts if all of it is of one class. The weights of few classes are
made to vary as much more than those of all keys as it takes for single sides, and pairs of them, to vary by the law.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import sub

import numpy as np

from twin.engine.draws import Draws
from twin.engine.windows.key_law import KeyLaw

CLASSES = 8
SINGLE = 0.02
"""Shape of Gamma variables below which one of them nearly always has the whole sum."""

Weight = float | np.ndarray
"""[CLASSES], or the same in all classes."""


@dataclass(frozen=True, slots=True)
class Weighing:
    """Variance of one tuple's weight: heat, as far as all classes share it; clumps, by which class it is in.

    explained: what weights bring to `KeyLaw.spreads`, by number of sides.
    """

    heat: float
    clumps: float
    explained: tuple[float, ...]

    @staticmethod
    def of(law: KeyLaw) -> Weighing:
        """As the law has it for single sides and, where there are more than two, for pairs of them."""
        heat, sides = law.spreads[0], len(law.spreads)
        beyond = law.spreads[1] - heat * heat if sides > 2 else 0.0
        clumps = math.sqrt(max(0.0, beyond) / (CLASSES - 1)) * CLASSES
        same, other = heat + clumps * (1.0 - 1.0 / CLASSES), heat - clumps / CLASSES
        explained = [(same**a + (CLASSES - 1) * other**a) / CLASSES for a in range(1, sides + 1)]
        return Weighing(heat, clumps, tuple(explained))

    def draw(self, draws: Draws, n: float) -> Weight:
        """Of n tuples of a side; on average n in each class."""
        if n <= 0.0:
            return 0.0
        total = self.heat * float(draws.rng.standard_gamma(n / self.heat)) if self.heat > 0.0 else n
        if self.clumps == 0.0:
            return total
        shape = n / self.clumps - 1.0 / CLASSES
        if shape > SINGLE:
            parts = draws.rng.standard_gamma(shape, CLASSES)
            return np.asarray(parts * (CLASSES * total / parts.sum()))
        parts = np.zeros(CLASSES)
        parts[int(draws.uniform() * CLASSES)] = CLASSES * total
        return parts


def combinations(since: Sequence[Weight], until: Sequence[Weight]) -> float:
    """Of what came in between, one tuple a side, all of one class: the mean over classes of the sides' product."""
    product: Weight = math.prod(map(sub, until, since))
    return product if isinstance(product, float) else float(product.sum()) / CLASSES
