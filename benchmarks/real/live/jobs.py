"""Which jobs run, at which rates: half of the operating points are calibrated on, the others are predicted."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shape:
    """A job of `LiveJob`. work_us: of its slow operator, a record; waits: asleep, else computing.

    fitted, predicted: records/s of each source, at the points that are calibrated on and at the others.
    """

    name: str
    shape: str
    work_us: int
    waits: bool
    replicas: int
    chaining: bool
    fitted: tuple[float, ...]
    predicted: tuple[float, ...]

    @property
    def sources(self) -> tuple[str, ...]:
        """Their names."""
        return ("left", "right") if self.shape == "join" else ("source",)

    @property
    def options(self) -> dict[str, object]:
        """As the job takes them."""
        return {
            "shape": self.shape,
            "work_us": self.work_us,
            "wait": str(self.waits).lower(),
            "replicas": self.replicas,
            "chaining": str(self.chaining).lower(),
        }


SHAPES = (
    Shape("line, a window", "line", 1000, True, 1, False, (300, 1700), (700, 2300)),
    Shape("line, two replicas", "line", 2000, True, 2, False, (300, 1700), (700, 2300)),
    Shape("fork", "fork", 1000, True, 1, False, (300, 1600), (700, 2200)),
    Shape("join", "join", 500, True, 1, False, (80, 160), (110, 140)),
    Shape("chained", "chain", 1000, True, 1, True, (300, 1700), (700, 2300)),
    Shape("CPU", "chain", 500, False, 1, False, (100, 400), (200, 300)),
)
FAILS = Shape("fails", "chain", 1000, True, 1, False, (), (500,))
RESCALED = Shape("rescaled", "chain", 2000, True, 1, False, (), (700,))
SAME_WORK = SHAPES[1]
"""Whose calibration says of the two above whether work takes cores."""
EVENT_S = 14.0
"""When the job fails, or is rescaled, after its first record was due."""
