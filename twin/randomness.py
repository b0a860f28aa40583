"""Random numbers: one seed, and one independent stream of numbers for each named component.

Streams are keyed by name, so adding an operator leaves the draws of all others alone, and two scenarios that share a
component share its random numbers (common random numbers).
"""

from __future__ import annotations

import hashlib

import numpy as np


def random_stream(seed: int, component: str) -> np.random.Generator:
    """Generator of one component in a run with that seed. Same seed and name: same numbers, on any machine.

    Raises ValueError if seed is negative.
    """
    key = int.from_bytes(hashlib.blake2b(component.encode(), digest_size=8).digest(), "big")
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(key,))))


def child_seed(seed: int, index: int) -> int:
    """Seed of run `index` in a family of runs; far-apart streams for neighbouring indices."""
    return int(np.random.SeedSequence(seed, spawn_key=(index,)).generate_state(1, np.uint64)[0] >> np.uint64(1))
