"""What operators share that pass a number of tuples on for each that comes, at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from twin.kinds.flow import Flow, Mixing
from twin.kinds.mechanism import Selecting
from twin.kinds.operator import OperatorBase


def beside(made: np.ndarray | float) -> np.ndarray:
    """How many others are made with one, where one tuple makes that many, rounded up or down at random.

    Of b at a time, E[b (b - 1)] / E[b].
    """
    whole = np.floor(made)
    return np.asarray(whole * (2.0 * made - whole - 1.0) / np.maximum(made, 1e-300))


class Selective(OperatorBase):
    """`selectivity` tuples leave for each that comes."""

    selectivity: float

    @property
    def one_to_one(self) -> bool:
        """See OperatorBase."""
        return self.selectivity == 1.0

    @property
    def gain(self) -> float:
        """See OperatorBase."""
        return self.selectivity

    def through(self, inputs: tuple[np.ndarray, ...], bursts: Sequence[np.ndarray], mixing: Mixing) -> Flow:
        """Bursts stay bursts, unless hardly a tuple of each is left."""
        total, together, burst_s = mixing.arriving(inputs, bursts)
        none, out = np.zeros_like(total), self.selectivity * total
        return Flow(inputs, total, out, none, none, none, np.where(together < out, together, np.inf), burst_s)

    @property
    def mechanism(self) -> Selecting:
        """See OperatorBase."""
        return Selecting(self.selectivity, self.thins)

    def measured_as(self, results_per_input: float) -> dict[str, Any]:
        """See OperatorBase."""
        return {"selectivity": results_per_input}

    def why_silent(self, taken: int, came: int) -> str:
        """Says that no result came by chance, if few were expected and the operator kept up."""
        few = taken * self.selectivity
        if few >= 3.0 or 2 * taken <= came:
            return ""
        return (
            f"{self.name!r} took in {taken} tuples and passed none on, {few:g} were to be expected; "
            "raise its selectivity or run longer"
        )
