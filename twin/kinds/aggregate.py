"""Windowed aggregation: one tuple per distinct group at each evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from twin.columns import Columns, DataType
from twin.kinds.ages import HeldTuples, group_age_s, length_s, older_by_input_s, start_s
from twin.kinds.flow import Flow, Mixing, OperatorRates
from twin.kinds.mechanism import Grouping
from twin.kinds.windowed import Windowed, content_and_fires

AggregateFunction = Literal["min", "max", "mean", "avg", "sum", "count"]


class Aggregate(Windowed):
    """Emits one tuple per distinct group in its window at each evaluation."""

    does: ClassVar[str] = "summarises a window of recent tuples"
    costs_like: ClassVar[str] = ""

    kind: Literal["aggregate"] = "aggregate"
    function: AggregateFunction = "mean"
    value_type: DataType = "double"
    group_by: DataType | None = None
    groups: Annotated[int, Field(ge=1, le=10**9, description="distinct group-by values in the stream")] = 1

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.group_by is None and self.groups != 1:
            raise ValueError(f"groups must be 1 without group_by, got {self.groups}; give group_by a data type")
        if self.group_by is None and self.key_groups is not None:
            raise ValueError(f"aggregate {self.name!r}: key_groups needs group_by; give group_by a data type")
        return self

    # traits ----------------------------------------------------------------------------------------------------------

    @property
    def keyed(self) -> bool:
        """Whether the aggregate groups its tuples."""
        return self.group_by is not None

    @property
    def counted(self) -> int:
        """Number of distinct groups."""
        return self.groups

    # law -------------------------------------------------------------------------------------------------------------

    def columns_out(self, inputs: Sequence[Columns]) -> Columns:
        """Columns of the key and the value."""
        key = Columns() if self.group_by is None else Columns.one(self.group_by)
        return key + Columns(doubles=1)

    def through(self, inputs: tuple[np.ndarray, ...], bursts: Sequence[np.ndarray], mixing: Mixing) -> Flow:
        """Flow through the aggregate: one result per distinct group and evaluation."""
        total, together, burst_s = mixing.arriving(inputs, bursts)
        content, fires = content_and_fires(self.window, total, together, burst_s)
        groups = self._distinct(content, mixing)
        often = np.minimum(fires, together)
        longest_s = np.where(fires > together, burst_s, 0.0)
        return Flow(inputs, total, fires * groups, content, fires, groups, often, longest_s)

    def _distinct(self, content: np.ndarray, mixing: Mixing) -> np.ndarray:
        """Expected distinct groups among `content` tuples of groups that are uniform over K values, or spread. [N]

        K (1 - (1 - 1/K)^w) for a count window, which holds exactly w tuples; averaged over a Poisson number of tuples
        with mean w, as a time window holds, it is K (1 - exp(-w/K)), which is below 1 when windows are often empty. For
        a count window, K is the number of values of its replica: values are dealt evenly to all replicas.
        """
        if mixing.spread is not None:
            return mixing.spread.distinct(content, mixing.replicas, exactly=self.window.policy == "count")
        groups = float(self.groups)
        if self.window.policy == "time":
            return -groups * np.expm1(-content / groups)
        own = np.maximum(groups / mixing.replicas, 1.0)
        with np.errstate(divide="ignore", invalid="ignore"):  # log 0 of a replica's only group
            several = -own * np.expm1(content * np.log1p(-1.0 / own))
        return np.where(own == 1.0, np.where(content > 0, 1.0, 0.0), several)

    def ages_s(self, arriving: np.ndarray, mixed: np.ndarray, held: HeldTuples) -> np.ndarray:
        """Ages of the results: those of the input tuples, and the age of the oldest tuple of a group. [3, N]"""
        _, slide_s = length_s(self.window, np.maximum(held.in_per_s, 1e-12))
        group_s = group_age_s(self.window, held)
        ages_s = [group_s + older_by_input_s(self.window, arriving[row], mixed[row], held) for row in (0, 1)]
        return np.asarray(mixed + np.stack(np.broadcast_arrays(*ages_s, start_s(self.window, slide_s))))

    def selectivity_at(self, rates: OperatorRates) -> float:
        """Distinct groups over tuples in the window (Costream, Definition 8)."""
        return rates.groups_per_fire / rates.window_tuples if rates.window_tuples else 0.0

    # mechanism -------------------------------------------------------------------------------------------------------

    @property
    def mechanism(self) -> Grouping:
        """Grouping by the operator's window and number of groups."""
        return Grouping(self.window, self.groups)
