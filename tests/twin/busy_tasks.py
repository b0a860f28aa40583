"""Tasks that share cores evenly while they are busy, and begin anew at rates of their own: as linear equations."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np


def busy_tasks(cores: float, jobs: int, odds: Sequence[float]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Beside so many that are always busy. (who is busy [S, N], how likely that is, what each then gets [S])."""
    states = list(product((0, 1), repeat=len(odds)))
    size = len(states)
    flow = np.zeros((size, size))
    for row, state in enumerate(states):
        present = jobs + sum(state)
        for task, busy in enumerate(state):
            to = states.index((*state[:task], 1 - busy, *state[task + 1 :]))
            flow[row, to] = min(1.0, cores / present) if busy else odds[task]
    flow -= np.diag(flow.sum(axis=1))
    chance = np.linalg.lstsq(np.vstack([flow.T, np.ones(size)]), np.eye(size + 1)[size], rcond=None)[0]
    rates = np.array([min(1.0, cores / max(1, jobs + sum(state))) for state in states])
    return np.array(states), chance, rates
