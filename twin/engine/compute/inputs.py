"""What a task's tuples are like on average, where they come on several streams: by what came on each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twin.engine.compute.bunches import SINGLE, Bunch, bunch

if TYPE_CHECKING:
    from twin.engine.streams.channel import Inbox


class Inputs:
    """One task's: its inboxes, one a stream; none of a source. service_s: what a tuple takes, all streams alike."""

    __slots__ = ("_beyond_s", "_tuple_bytes", "inboxes", "service_s")

    def __init__(self, service_s: float) -> None:
        self.service_s = service_s
        self.inboxes: list[Inbox] = []
        self._beyond_s: float | None = 0.0  # what is the same on all streams; else None, and a mean is taken
        self._tuple_bytes: float | None = 0.0

    def add(self, inbox: Inbox) -> None:
        """Another stream."""
        self.inboxes.append(inbox)
        self._beyond_s = _common([each.beyond_s for each in self.inboxes])
        self._tuple_bytes = _common([each.tuple_bytes for each in self.inboxes])

    def tuple_bytes(self) -> float:
        """Mean size of the tuples that came; 0 without an input."""
        if self._tuple_bytes is not None:
            return self._tuple_bytes
        return self._mean([each.tuple_bytes for each in self.inboxes])

    def beyond_s(self) -> float:
        """Mean CPU seconds of the tuples that came, beyond the task's `service_s`."""
        if self._beyond_s is not None:
            return self._beyond_s
        return self._mean([each.beyond_s for each in self.inboxes])

    def bunch(self, capacity: float, own: float, used: float) -> Bunch:
        """With whom it gets its work, of so many cores, on a processor used to that share; mean of all tuples."""
        found = [bunch(capacity, each.coming, own, used) for each in self.inboxes]
        if len(found) == 1:
            return found[0]
        tasks = self._mean([each.tasks for each in found])
        return Bunch(tasks, self._mean([each.met for each in found])) if tasks > 1.0 else SINGLE

    def scv(self) -> float:
        """Squared coefficient of variation of the services, between streams alone."""
        if self._beyond_s is not None:
            return 0.0
        mean_s = self.beyond_s()
        spread = self._mean([(each.beyond_s - mean_s) ** 2 for each in self.inboxes])
        return spread / (self.service_s + mean_s) ** 2 if spread > 0.0 else 0.0

    def _mean(self, values: list[float]) -> float:
        sent = [each.sent for each in self.inboxes]
        if not any(sent):  # nothing came yet
            sent = [1] * len(values)
        return sum([value * tuples for value, tuples in zip(values, sent, strict=True)]) / sum(sent)


def _common(values: list[float]) -> float | None:
    return values[0] if min(values) == max(values) else None
