"""Which tuples of several sides meet in a join's window, as the law of joins expects. All arrays are [N]."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from twin.kinds.flow import MIXED, Mixing
from twin.windows import Window


def stalling(
    window: Window,
    inputs: tuple[np.ndarray, ...],
    mixing: Mixing,
    content: np.ndarray,
    fires: np.ndarray,
    matches: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Content, evaluations a second and matches each of a join with a time window that its own results block. [N] each

    Blocked for longer than a slide s, it takes tuples only from when it is let go to the next evaluation: for a time t
    that is anything from 0 to s, s / 2 on average, and the share b of all time. Tuples come in bunches then, one every
    s / 2b, of which a run sees two at least. Matches grow with the product of what a bunch has of the sides: where both
    fill their channels, with E[t^2] / E[t] = 2 s / 3; of a side that brings next to nothing, a bunch takes all that has
    come, which leaves s / 2. Evenly they would grow with b times the window's size.
    """
    assert mixing.stalls_s is not None
    stalled = mixing.stalls_s > 0
    busy = np.maximum(np.sum(inputs, axis=0) * mixing.stalls_s, window.slide / mixing.horizon_s)
    alike = np.min(inputs, axis=0) / np.maximum(np.max(inputs, axis=0), 1e-12)
    bunched = (1.0 / 2.0 + np.minimum(1.0, 4.0 * alike) / 6.0) * window.slide / window.size / np.maximum(busy, 1e-9)
    rarer = np.where(stalled, np.minimum(1.0, 2.0 * busy), 1.0)
    return content / rarer, fires * rarer, matches * np.where(stalled, np.maximum(1.0, bunched), 1.0) / rarer


def combinations(
    window: Window, inputs: tuple[np.ndarray, ...], bursts: Sequence[np.ndarray], content: np.ndarray, mixing: Mixing
) -> np.ndarray:
    """Expected product of the tuples of all sides in a window.

    Of three and more sides, streams count as well mixed: the sides of a count window of w tuples are multinomial, so
    the product falls short of that of the means by (1 - 1/w) (1 - 2/w) ...; those of a time window are independent.
    """
    if len(inputs) == 2:
        return pairs(window, inputs, bursts, content, mixing)
    total = np.sum(inputs, axis=0)
    product = np.ones_like(total)
    for number, rate in enumerate(inputs):
        share = np.divide(rate, total, out=np.zeros_like(total), where=total > 0)
        fewer = number if window.policy == "count" else 0
        product *= np.maximum(content - fewer, 0.0) * share
    return product


def pairs(
    window: Window,
    inputs: tuple[np.ndarray, ...],
    bursts: Sequence[np.ndarray],
    content: np.ndarray,
    mixing: Mixing = MIXED,
) -> np.ndarray:
    """Expected product of the tuples of both sides in a window.

    A count window under bursts slides over runs of b tuples of one side and m of the other, in turn; a pair k apart
    is of both sides with probability 2 min(k, b, m, b + m - k) / (b + m), k modulo b + m. Of a burst above the credits
    of its channel, the rest comes at the pace of the join, mixed with what comes of the other side meanwhile.
    """
    total = inputs[0] + inputs[1]
    left = content * np.divide(inputs[0], total, out=np.zeros_like(total), where=total > 0)
    mixed = left * (content - left)
    if window.policy == "time":
        return mixed
    mixed *= 1.0 - (1.0 / window.size if mixing.by_chance else 0.0)
    often = np.minimum(*bursts)
    if not np.isfinite(often).any():
        return mixed
    bursting = bursts[0] <= bursts[1]
    runs = [np.divide(rate, often, out=np.ones_like(rate), where=often > 0) for rate in inputs]
    burst, other = np.where(bursting, runs[0], runs[1]), np.where(bursting, runs[1], runs[0])
    used = [rate * each_s for rate, each_s in zip(inputs, mixing.services_s or (0.0, 0.0), strict=True)]
    among = np.minimum(np.where(bursting, used[1], used[0]), 0.9)  # what a tuple at pace meets
    spread = np.maximum(burst - mixing.credits, 0.0)
    meanwhile = np.minimum(spread * among / (1.0 - among), other)
    whole, rest = np.maximum(burst - spread, 1e-9), np.maximum(other - meanwhile, 1e-9)
    share = np.divide(meanwhile, spread + meanwhile, out=np.zeros_like(spread), where=spread > 0)
    within = window.size * (window.size - 1.0) * share * (1.0 - share)
    apart = _alternating(window.size, whole + rest, np.minimum(whole, rest))
    both = (apart * (whole + rest) + within * (spread + meanwhile)) / np.maximum(burst + other, 1e-9)
    return np.where(np.isfinite(often) & (burst + other > 2.0), both, mixed)


def _alternating(size: float, period: np.ndarray, shorter: np.ndarray) -> np.ndarray:
    """Sum over k < size of (size - k) 2 min(k, m, P - k) / P, k modulo the period P, with the shorter run m. [N]

    The sum is the trapezoidal rule for the integral of the same, which is a cubic in the rest of size / P and off by
    a sixth of the last term; where runs are not whole numbers, nearly so.
    """
    periods, rest = np.divmod(size, period)
    in_one = shorter * (period - shorter)  # integral of min(k, m, P - k) over a period; it is symmetrical
    rising, falling = np.maximum(rest - shorter, 0.0), np.maximum(rest - period + shorter, 0.0)
    twice = periods * in_one * (period * periods / 2.0 + rest) + (rest**3 - rising**3 - falling**3) / 6.0
    return np.asarray(2.0 * (twice - np.minimum(np.minimum(rest, shorter), period - rest) / 6.0) / period)
