"""A task behind a gate: one that takes part in checkpoints."""

from __future__ import annotations

from twin.engine.segment import Segment
from twin.engine.station.task import Task


class GatedTask(Task):
    """What comes passes its gate first, if it has got one."""

    __slots__ = ()

    def deliver(self, segment: Segment) -> None:
        """Unaligned barriers are heeded as they arrive."""
        gate = self.gate
        if gate is not None and gate.overtakes and gate.arrived(segment):
            return
        Task.deliver(self, segment)

    def begin(self, segment: Segment) -> None:
        """What comes behind an aligned barrier waits for the others."""
        gate = self.gate
        if gate is not None and gate.came and not gate.overtakes and gate.holds(segment):
            gate.put(segment)
        else:
            Task.begin(self, segment)
