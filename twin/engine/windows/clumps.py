"""How results that came together keep the sides of a count window apart, where segments have spread them.

The results of one evaluation come all at once, with none of the other side between them. Where many evaluations became
one segment its tuples lie evenly, and would mix with the other side like tuples that came by themselves.

In windows of w tuples, a share q of them of one side, E[n1 n2] = w^2 q (1 - q) - Var(n). Tuples that come singly bring
w q (1 - q) to the variance. Clumps of B on average, Poisson numbers of them, that come every 1 / x of a window
bring B (1 - q) times Var(K) / x times as much on top, where K = floor or ceiling of x are in a window.
"""

from __future__ import annotations

UNEVEN = 1.0 / 6.0
"""Mean of f (1 - f) over all fractions f: the variance of how many of many even steps a window holds."""


def clumping(clump: float, share: float, size: float) -> float:
    """By how much less sides match, over what they do: one has that share of a window's tuples, in such clumps."""
    if clump <= 0.0 or share >= 1.0:
        return 0.0
    steps = size * share / clump  # clumps a window
    varied = max(UNEVEN, steps * (1.0 - steps)) if steps > UNEVEN else steps * (1.0 - steps)
    return (1.0 - share) * clump * varied / steps / size
