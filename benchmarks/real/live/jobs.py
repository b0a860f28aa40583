"""Jobs for the real Flink, with their rates: two light points of each are calibrated on, the others predicted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Event = Literal["", "fails", "rescales", "savepoint"]
"""Event of a job: it fails; its slow operator gets a second subtask while it runs; or all slow operators get twice the
subtasks, by a savepoint and a restart from it."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Job of `LiveJob`. work_us: service time of its slow operator; waits: whether that sleeps instead of computing.
    subtasks: of each slow operator.

    fitted, predicted: rates of each source [records/s] at the points that are calibrated on and at the others. shares:
    of that rate, by source. neighbours: processes that compute beside it. told: by path in the scenario, what the owner
    says because an import cannot read it.
    """

    name: str
    shape: str
    work_us: int
    waits: bool
    parallelism: tuple[int, ...]
    chaining: bool
    fitted: tuple[float, ...]
    predicted: tuple[float, ...]
    shares: Mapping[str, float] = field(default_factory=lambda: {"source": 1.0})
    neighbours: int = 0
    told: Mapping[str, Any] = field(default_factory=dict)
    event: Event = ""

    @property
    def options(self) -> dict[str, object]:
        """Arguments of the job's main program."""
        return {
            "shape": self.shape,
            "work_us": self.work_us,
            "wait": str(self.waits).lower(),
            "replicas": ",".join(map(str, self.parallelism)),
            "chaining": str(self.chaining).lower(),
            **{f"share_{source}": share for source, share in self.shares.items()},
        }

    @property
    def slow(self) -> tuple[str, ...]:
        """Names of the slow operators."""
        return ("first", "second") if self.shape == "keyed" else ("work",)

    def folder(self, rate: float) -> str:
        """Name of the folder that keeps the point at that rate."""
        return f"{self.name.replace(', ', '-').replace(' ', '-')}-{rate:g}"

    @property
    def rates(self) -> tuple[float, ...]:
        """All rates, those that are calibrated on first."""
        return (*self.fitted, *self.predicted)


@dataclass(frozen=True, slots=True)
class Jobs:
    """Set of jobs. shapes: measured at steady rates. events: jobs with an event, whose work sleeps; each with the shape
    of the same work that is calibrated for it."""

    shapes: tuple[Shape, ...]
    events: tuple[tuple[Shape, Shape], ...]


BOTH = {"left": 1.0, "right": 1.0}
LINE = Shape("line, two subtasks", "line", 2000, True, (2,), False, (300, 1700), (700, 2300))
FIRST = Jobs(
    (
        Shape("line, a window", "line", 1000, True, (1,), False, (300, 1700), (700, 2300)),
        LINE,
        Shape("fork", "fork", 1000, True, (1,), False, (300, 1600), (700, 2200)),
        Shape("join", "join", 500, True, (1,), False, (80, 160), (110, 140), BOTH),
        Shape("chained", "chain", 1000, True, (1,), True, (300, 1700), (700, 2300)),
        Shape("CPU", "chain", 500, False, (1,), False, (100, 400), (200, 300)),
    ),
    (
        (Shape("fails", "chain", 1000, True, (1,), False, (), (500,), event="fails"), LINE),
        (Shape("rescaled", "chain", 2000, True, (1,), False, (), (700,), event="rescales"), LINE),
    ),
)
UNEQUAL = {"left": 1.0, "right": 0.25}
A_CALL = {
    f"query.operators.async_wait_operator.{key}": value
    for key, value in (("latency_s", 0.05), ("latency_scv", 0.0), ("capacity", 20))
}
"""Calls of the job `async`: they all take 50 ms, and at most 20 are pending."""
KEYS = {"workload.keys": {name: {"keys": 64} for name in ("first", "second")}}
KEYED = Shape("keyed, 2 and 3 subtasks", "keyed", 2000, True, (2, 3), False, (200, 350), (450, 550, 1400))
OTHER = Jobs(
    (
        KEYED,
        Shape("unequal join", "slow left", 2000, True, (1,), False, (100, 200), (280, 360, 1000), UNEQUAL),
        Shape("session", "session", 1000, True, (1,), False, (200, 400), (550, 700, 2000)),
        Shape("async", "async", 50_000, True, (1,), False, (100, 200), (270, 340, 900), told=A_CALL),
        Shape("CPU, busy neighbour", "chain", 500, False, (1,), False, (200, 500), (800, 1100, 3500), neighbours=1),
    ),
    (
        (Shape("keyed fails", "keyed", 2000, True, (2, 3), False, (), (500,), event="fails"), KEYED),
        (
            Shape("keyed, savepoint", "keyed", 2000, True, (2, 3), False, (), (1500,), told=KEYS, event="savepoint"),
            KEYED,
        ),
    ),
)
SETS = {"first": FIRST, "other": OTHER}
EVENT_S = 14.0
"""Time of the event after the first record was due."""
