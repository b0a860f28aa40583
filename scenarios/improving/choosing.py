"""Which plans of a job are worth a run: where the members of an ensemble disagree, where an optimizer would go.

A strategy is a function (estimates in the order of the plans, their ranks by the model, a random stream, how many)
to rows. `random` is what the others must beat.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from twin.errors import BadInput, suggest

Strategy = Callable[[np.ndarray, np.ndarray, np.random.Generator, int], np.ndarray]
"""(spread [P], order [P]: rows from the best plan down, stream, count) -> count rows."""


def disputed(spread: np.ndarray, order: np.ndarray, rng: np.random.Generator, count: int) -> np.ndarray:
    """The plans about which the members disagree most."""
    del order, rng
    return np.argsort(-spread, kind="stable")[:count]


def favoured(spread: np.ndarray, order: np.ndarray, rng: np.random.Generator, count: int) -> np.ndarray:
    """The plans that an optimizer would choose: the best by the model."""
    del spread, rng
    return order[:count]


def active(spread: np.ndarray, order: np.ndarray, rng: np.random.Generator, count: int) -> np.ndarray:
    """Half by favour, and of the others those that are disputed most."""
    first = favoured(spread, order, rng, (count + 1) // 2)
    left = spread.copy()
    left[first] = -1.0
    return np.concatenate([first, disputed(left, order, rng, count - len(first))])


def at_random(spread: np.ndarray, order: np.ndarray, rng: np.random.Generator, count: int) -> np.ndarray:
    """Any."""
    del order
    return rng.permutation(len(spread))[:count]


STRATEGIES: Mapping[str, Strategy] = {
    "active": active,
    "disputed": disputed,
    "favoured": favoured,
    "random": at_random,
}


def strategy(name: str, option: str) -> Strategy:
    """Raises BadInput for an unknown one."""
    if name not in STRATEGIES:
        raise BadInput(f"{option} {name!r} is no strategy; {suggest(name, STRATEGIES)}")
    return STRATEGIES[name]
