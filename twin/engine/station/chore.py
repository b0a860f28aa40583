"""Work that a station does beside its records, once it has time: nothing comes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twin.engine.logic import Logic
from twin.engine.outcome import Outcome

if TYPE_CHECKING:
    from twin.engine.station.task import Task


class Chore(Logic):
    """work_s: CPU seconds."""

    __slots__ = ("work_s",)

    def __init__(self, station: Task, work_s: float) -> None:
        super().__init__()
        self.station = station
        self.work_s = work_s

    def due(self, at_s: float, from_s: float) -> None:
        """See Logic."""
        self.station.job(Outcome([], self.station, []), self.work_s)


def occupy(station: Task, work_s: float) -> None:
    """Gives a station so many CPU seconds of work: before the next record, or now if it is idle."""
    chore, now = Chore(station, work_s), station.env.now
    if station.busy or station.blocked:
        station.errands.append((chore, now))
    else:
        chore.due(now, now)
