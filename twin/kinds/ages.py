"""How old tuples get in windows: what the laws of windowed kinds share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from twin.event_windows.window import US_PER_S, EventWindow
from twin.windows import Window


class Held(NamedTuple):
    """What an operator takes in and its window holds: tuples a second, tuples, distinct groups. [N] each"""

    in_per_s: np.ndarray
    window_tuples: np.ndarray
    groups: np.ndarray


def group_age_s(window: Window, held: Held) -> np.ndarray:
    """Mean age, since its arrival, of the oldest tuple of a group. [N]"""
    of_group = held.window_tuples / np.maximum(held.groups, 1e-12)
    if window.policy == "time":
        return np.asarray(of_group * window.size / (of_group + 1.0))
    taken = np.maximum(held.in_per_s, 1e-12)
    return np.asarray((of_group * (held.window_tuples + 1.0) / (of_group + 1.0) - 1.0) / taken)


def oldest_s(arriving: list[np.ndarray], size_s: np.ndarray) -> np.ndarray:
    """Mean age of the oldest of tuples drawn from each side, that are up to `size_s` older than on arrival. [3, N]"""
    older = np.max(arriving, axis=0)
    if len(arriving) == 2:
        apart = np.abs(arriving[0] - arriving[1])
        return np.asarray(older + size_s / 2.0 + np.maximum(size_s - apart, 0.0) ** 3 / (6.0 * size_s**2))
    ages = older
    for node, weight in zip(*np.polynomial.legendre.leggauss(16), strict=True):  # of P(some tuple is older than that)
        beyond = size_s * (1.0 + node) / 2.0
        below = [np.clip((older - age + beyond) / size_s, 0.0, 1.0) for age in arriving]
        ages = ages + weight / 2.0 * size_s * (1.0 - np.prod(below, axis=0))
    return np.asarray(ages)


def length_s(window: Window, in_per_s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Size and slide in seconds, at that input rate. [N] each"""
    if window.policy == "time":
        return np.full_like(in_per_s, window.size), np.full_like(in_per_s, window.slide)
    return window.size / in_per_s, window.slide / in_per_s


def start_s(window: Window, slide_s: np.ndarray) -> np.ndarray:
    """By how long the first results are late: a tumbling time window's by its length, others' by half a slide. [N]"""
    return slide_s if window.policy == "time" and window.tumbling else slide_s / 2.0


def event_ages_s(windows: Sequence[EventWindow], tuples_per_key: Sequence[np.ndarray]) -> np.ndarray:
    """What windows over event time add to the ages of their results: rows as in `twin.rates.latency`. [3, N]

    tuples_per_key: that a window holds on average, of a Poisson number; by window. The oldest of n is n / (n + 1) of
    the window old, and a result needs one. How long a source waits for what is late (its slack, less the disorder of
    what came) is not in it.
    """
    weighted, weights = np.zeros((2, *np.shape(tuples_per_key[0]))), 0.0
    for window, mean in zip(windows, np.maximum(tuples_per_key, 1e-6), strict=True):
        length_s, every_s = window.length_us / US_PER_S, window.every_us / US_PER_S
        some = -np.expm1(-mean)
        oldest_s = length_s * (1.0 - (some / mean - np.exp(-mean)) / some)
        begins_s = every_s if length_s == every_s else every_s / 2.0
        weighted += some / every_s * np.stack([oldest_s, np.full_like(mean, begins_s)])
        weights += some / every_s
    oldest, begins = weighted / weights
    return np.stack([oldest, oldest, begins])
