"""Random jobs of Enorm's Section 7: operators in levels, each with a random subset of 30 partition attributes.

Where the paper leaves something open: the size of the subset walks by -3 to 3 from one operator to the next, between 1
and 30; operator i of n is in level i L // n; every operator has 1,000 tuples a second to send, and what the last
consumer does not get is not sent; every operator takes and passes all attributes.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from optimizers.fusion.job import FusionJob, FusionOperator, Transfer
from twin.errors import BadInput
from twin.randomness import random_stream

ATTRIBUTES = tuple(f"a{number:02d}" for number in range(30))
LARGEST_STEP = 3
RATE_PER_S = 1000.0
FEWEST_LEVELS, MOST_LEVELS = 3, 0.75
"""Least number of levels, and largest as a share of the operators."""
FEWEST_OPERATORS = 4


def random_job(operators: int, seed: int) -> FusionJob:
    """Random job of a size and a seed. Raises BadInput below 4 operators: there would be no three levels."""
    if operators < FEWEST_OPERATORS:
        raise BadInput(f"operators must be >= {FEWEST_OPERATORS}, got {operators}")
    rng = random_stream(seed, f"fusion-job-{operators}")
    names = [f"op{number}" for number in range(operators)]
    keys = list(_keys(operators, rng))
    levels = int(rng.integers(FEWEST_LEVELS, max(FEWEST_LEVELS, int(MOST_LEVELS * operators)) + 1))
    level = [number * levels // operators for number in range(operators)]
    return FusionJob(
        operators=tuple(
            FusionOperator(name=name, kind="map", schema_in=ATTRIBUTES, schema_out=ATTRIBUTES, partition_by=each)
            for name, each in zip(names, keys, strict=True)
        ),
        transfers=tuple(
            Transfer(producer=name, consumer=consumer, rate_per_s=rate)
            for name, place in zip(names, level, strict=True)
            for consumer, rate in _sent(
                [each for each, below in zip(names, level, strict=True) if below == place + 1], rng
            )
        ),
    )


def _keys(operators: int, rng: np.random.Generator) -> Iterator[tuple[str, ...]]:
    size = len(ATTRIBUTES) // 2
    for _ in range(operators):
        yield tuple(ATTRIBUTES[each] for each in sorted(rng.choice(len(ATTRIBUTES), size, replace=False)))
        size = int(np.clip(size + rng.integers(-LARGEST_STEP, LARGEST_STEP + 1), 1, len(ATTRIBUTES)))


def _sent(consumers: list[str], rng: np.random.Generator) -> Iterator[tuple[str, float]]:
    """Yields for each consumer a random share of a random part of what is left."""
    left = RATE_PER_S
    for consumer in consumers:
        rate = float(rng.uniform(0.0, left) * rng.uniform())
        left -= rate
        yield consumer, rate
