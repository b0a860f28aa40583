"""Base of operators that pass on, at once, a number of records for each input record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from twin.kinds.flow import Flow, Mixing
from twin.kinds.mechanism import Selecting
from twin.kinds.operator import OperatorBase


def beside(made: np.ndarray | float) -> np.ndarray:
    """Mean number of other records made together with a record, if one input record makes `made` of them, rounded up or
    down at random: E[b (b - 1)] / E[b]."""
    whole = np.floor(made)
    return np.asarray(whole * (2.0 * made - whole - 1.0) / np.maximum(made, 1e-300))


class Selective(OperatorBase):
    """Base of operators that pass on `selectivity` records for each input record."""

    selectivity: float

    @property
    def one_to_one(self) -> bool:
        """Whether each record leaves as one, at once: its selectivity is 1."""
        return self.selectivity == 1.0

    @property
    def gain(self) -> float:
        """Mean number of records that leave for each input record."""
        return self.selectivity

    def through(self, inputs: tuple[np.ndarray, ...], bursts: Sequence[np.ndarray], mixing: Mixing) -> Flow:
        """Flow through the operator. Bursts stay bursts, unless hardly a record of each is left."""
        total, together, burst_s = mixing.arriving(inputs, bursts)
        none, out = np.zeros_like(total), self.gain * total
        return Flow(inputs, total, out, none, none, none, np.where(together < out, together, np.inf), burst_s)

    @property
    def mechanism(self) -> Selecting:
        """Selecting by the operator's selectivity."""
        return Selecting(self.selectivity, self.thins)

    def measured_as(self, results_per_input: float) -> dict[str, Any]:
        """Selectivity that makes the operator emit that many records per input record."""
        return {"selectivity": results_per_input}

    def why_silent(self, taken: int, came: int) -> str:
        """Says that no result came by chance, if few were expected and the operator kept up."""
        few = taken * self.gain
        if few >= 3.0 or 2 * taken <= came:
            return ""
        return (
            f"{self.name!r} took in {taken} records and passed none on, {few:g} were to be expected; "
            "raise its selectivity or run longer"
        )
