"""The queries of Nexmark that StreamBed measured, operator by operator as Flink's plan has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Keyed = Literal["no", "by record", "by window"]


@dataclass(frozen=True)
class Step:
    """Operator of a plan. size_s, slide_s: of its windows, if it has any; gap_s: of its sessions. keyed: whether a
    record's own key says which subtask gets it, or the window that it is a result of."""

    name: str
    inputs: tuple[str, ...]
    keyed: Keyed = "no"
    size_s: float | None = None
    slide_s: float | None = None
    gap_s: float | None = None

    @property
    def window_s(self) -> tuple[float, float] | None:
        """Size and slide of the window; None without one."""
        return None if self.size_s is None else (self.size_s, self.slide_s or self.size_s)


SOURCE, SINK = "Source", "Sink"

QUERIES: Mapping[str, tuple[Step, ...]] = {
    "q1": (Step("Calc", (SOURCE,)), Step(SINK, ("Calc",))),
    "q2": (Step("Calc", (SOURCE,)), Step(SINK, ("Calc",))),
    "q5": (
        Step("Calc1", (SOURCE,)),
        Step("GroupWindowAggregate", ("Calc1",), "by record", size_s=10, slide_s=2),
        Step("Calc2", ("GroupWindowAggregate",)),
        Step("Calc3", ("GroupWindowAggregate",)),
        Step("GroupAggregate", ("Calc3",), "by window"),
        Step("Calc4", ("GroupAggregate",)),
        Step("Join", ("Calc2", "Calc4"), "by window"),
        Step("Calc5", ("Join",)),
        Step(SINK, ("Calc5",)),
    ),
    "q8": (
        Step("Calc1", (SOURCE,)),
        Step("Calc2", (SOURCE,)),
        Step("GroupWindowAggregate1", ("Calc1",), "by record", size_s=10),
        Step("GroupWindowAggregate2", ("Calc2",), "by record", size_s=10),
        Step("Calc3", ("GroupWindowAggregate1",)),
        Step("Calc4", ("GroupWindowAggregate2",)),
        Step("Join", ("Calc3", "Calc4"), "by record"),
        Step("Calc5", ("Join",)),
        Step(SINK, ("Calc5",)),
    ),
    "q11": (
        Step("Calc1", (SOURCE,)),
        Step("GroupWindowAggregate", ("Calc1",), "by record", gap_s=10),
        Step("Calc2", ("GroupWindowAggregate",)),
        Step(SINK, ("Calc2",)),
    ),
}
"""Operators behind the source, in topological order.

q5 asks for the auctions with most bids in each window: the maximum, and the join with it, are by the window's times.
"""
