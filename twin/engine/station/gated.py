"""A task behind a gate: one that takes part in checkpoints."""

from __future__ import annotations

from twin.engine.record import Record
from twin.engine.station.task import Task


class GatedTask(Task):
    """What comes passes its gate first, if it has got one."""

    __slots__ = ()

    def deliver(self, record: Record) -> None:
        """Unaligned barriers are heeded as they arrive."""
        gate = self.gate
        if gate is not None and gate.overtakes and gate.arrived(record):
            return
        Task.deliver(self, record)

    def begin(self, record: Record) -> None:
        """What comes behind an aligned barrier waits for the others."""
        gate = self.gate
        if gate is not None and gate.came and not gate.overtakes and gate.holds(record):
            gate.put(record)
        else:
            Task.begin(self, record)
