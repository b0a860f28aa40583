"""What tasks that come and go leave to one that is always busy: processor sharing with a permanent customer.

Of n tasks beside it, K are busy; each of them, and each of `always` that always are, gets min(1, c / (K + always))
cores. K is a birth-death chain: a tuple that comes finds its own task busy by chance, or rather not where tuples are
dealt in turn. So cores are lost while few are busy, and what one gets is less than what the demand of the others
leaves: the mean over the chain. How much that varies over time comes to waits as varied services do: the asymptotic
variance of a birth-death chain's mean, in closed form (Whitt, "Asymptotic formulas for Markov processes with
applications to simulation", 1992). [K] throughout.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

MOST_TASKS = 256
"""Beside one, of which more count as so many."""
NEVER = 1e-3
"""Of its demand, at which a task's queue empties at least, where it gets less than it needs."""


class Others(NamedTuple):
    """Of the tasks beside one that come and go: the cores that they need in all; how many equal ones vary as they do;
    whether a tuple finds its own task busy by chance (1) or never (0); the mean rest of a service, in CPU seconds."""

    demand: np.ndarray
    tasks: np.ndarray
    chance: np.ndarray
    rest_s: np.ndarray

    def select(self, rows: np.ndarray) -> Others:
        """Of some (a mask)."""
        return Others(self.demand[rows], self.tasks[rows], self.chance[rows], self.rest_s[rows])


class Left(NamedTuple):
    """cores: what one that is always busy gets on average, above 0; varied_s: by how much the variance of what it gets
    in all grows a second."""

    cores: np.ndarray
    varied_s: np.ndarray


def left(cores: np.ndarray, always: np.ndarray, others: Others) -> Left:
    """To one of `always` tasks that always are busy. cores: of the processor."""
    most = int(np.ceil(min(others.tasks.max(initial=0.0), MOST_TASKS)))
    k = np.arange(most + 1.0)[:, None]
    speed = np.minimum(1.0, cores / (k + always))
    births, deaths = _paces(k, speed, others)
    steps = np.cumsum(np.log(np.maximum(births[:-1], 1e-300)) - np.log(deaths[1:]), axis=0)
    steps = np.concatenate([np.zeros_like(steps[:1]), steps]) if most else np.zeros_like(births)
    chances = np.exp(steps - steps.max(axis=0))
    chances /= chances.sum(axis=0)
    mean = (chances * speed).sum(axis=0)
    flow = births[:-1] * chances[:-1]
    apart = np.cumsum(chances * (speed - mean), axis=0)[:-1] ** 2
    varied = 2.0 * np.where(flow > 1e-12, apart / np.maximum(flow, 1e-12), 0.0).sum(axis=0)
    return Left(mean, varied * others.rest_s)


def _paces(k: np.ndarray, speed: np.ndarray, others: Others) -> tuple[np.ndarray, np.ndarray]:
    """At which of the others one more becomes busy where k are, and one less: so that they do what they need. In times
    of a mean rest of a service. [most + 1, K] each"""
    each = others.demand / np.maximum(others.tasks, 1e-12)
    free = np.clip(others.tasks - k, 0.0, 1.0)
    births = others.demand * (1.0 - others.chance * np.minimum(k / np.maximum(others.tasks, 1e-12), 1.0)) * free
    return births, np.maximum(k * (speed - others.chance * each), NEVER * np.maximum(each, 1e-12))
