"""Alignments: keys that stay together from one operator to the next, by a pattern of key groups.

Without an alignment the key group of a tuple in one operator says nothing of its key group in the next (full
partitioning). The patterns are those of ALBIC (Madsen, Zhou, Cao 2016, Fig. 1).
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from twin.spec import Spec

Pattern = Literal["one-to-one", "partial-merge", "partial-partitioning"]


class Alignment(Spec):
    """Alignment of one stream between operators with key groups.

    one-to-one: key group k sends to key group k. partial-merge: each sends to one, neighbours to the same.
    partial-partitioning: each sends evenly to `degree` in a row. The rest of the tuples fall on all key groups.
    """

    pattern: Pattern
    share: Annotated[float, Field(gt=0, le=1, description="of the stream's tuples that keep to the pattern")] = 1.0
    degree: Annotated[int | None, Field(ge=1, description="receivers of each key group, of partial-partitioning")] = (
        None
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.degree is None) == (self.pattern == "partial-partitioning"):
            raise ValueError("degree is for partial-partitioning, which needs it, and for no other pattern")
        return self


def alignment_by_name(value: object) -> object:
    """Alignment by the name of its pattern, without options; anything else unchanged."""
    return {"pattern": value} if isinstance(value, str) else value


def parts(pattern: Alignment, producers: int, consumers: int) -> np.ndarray:
    """Share of each consumer key group in the output of each producer key group, by the pattern. [producers,
    consumers]; rows sum to 1."""
    degree = pattern.degree or 1
    found = np.zeros((producers, consumers))
    first = np.arange(producers) * consumers // producers
    for step in range(degree):
        found[np.arange(producers), (first + step) % consumers] = 1.0 / degree
    return found
