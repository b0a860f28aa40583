"""The clock of a run: SimPy's environment, whose time and numbers of events lie in the run's memory."""

from __future__ import annotations

from ctypes import c_double
from typing import Any

from twin.engine.calendar import Calendar
from twin.kernel import layout as k
from twin.world.memory import Numbers, State


class Clock(Calendar):
    """Calendar that shares its time and its numbers of events with compiled code. now: simulated seconds."""

    def __init__(self, state: State) -> None:
        self._cell = c_double.from_address(state.here + k.NOW)
        super().__init__()
        self._eid: Any = Numbers(state)

    @property
    def now(self) -> float:
        """Simulated seconds."""
        return float(self._cell.value)

    @now.setter
    def now(self, now_s: float) -> None:
        self._cell.value = now_s

    _now = now
