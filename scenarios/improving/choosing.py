"""Strategies that choose plans of a job for simulation: where members of an ensemble disagree, or plans look best.

The strategy `random` is the baseline that the others must beat.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from twin.errors import BadInput, suggest

Strategy = Callable[[np.ndarray, np.ndarray, np.random.Generator, int], np.ndarray]
"""Function (spread [P]: disagreement of the members, order [P]: rows from the best plan down, random stream, count) ->
`count` rows of the plans to simulate."""


def disputed(spread: np.ndarray, order: np.ndarray, rng: np.random.Generator, count: int) -> np.ndarray:
    """Plans about which the members of the ensemble disagree most."""
    del order, rng
    return np.argsort(-spread, kind="stable")[:count]


def favoured(spread: np.ndarray, order: np.ndarray, rng: np.random.Generator, count: int) -> np.ndarray:
    """Plans that an optimizer would choose: the best by the model."""
    del spread, rng
    return order[:count]


def active(spread: np.ndarray, order: np.ndarray, rng: np.random.Generator, count: int) -> np.ndarray:
    """Plans of which half are the best by the model, and the others are disputed most among the rest."""
    first = favoured(spread, order, rng, (count + 1) // 2)
    left = spread.copy()
    left[first] = -1.0
    return np.concatenate([first, disputed(left, order, rng, count - len(first))])


def at_random(spread: np.ndarray, order: np.ndarray, rng: np.random.Generator, count: int) -> np.ndarray:
    """Plans that are chosen at random."""
    del order
    return rng.permutation(len(spread))[:count]


STRATEGIES: Mapping[str, Strategy] = {
    "active": active,
    "disputed": disputed,
    "favoured": favoured,
    "random": at_random,
}


def strategy(name: str, option: str) -> Strategy:
    """Strategy of that name. Raises BadInput for an unknown one; option: that named it."""
    if name not in STRATEGIES:
        raise BadInput(f"{option} {name!r} is no strategy; {suggest(name, STRATEGIES)}")
    return STRATEGIES[name]
