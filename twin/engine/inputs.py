"""What a task's tuples are like on average, where they come on several streams: by what came on each."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from twin.engine.channel import Inbox


class Inputs:
    """One task's: its inboxes, one a stream; none of a source."""

    __slots__ = ("inboxes",)

    def __init__(self) -> None:
        self.inboxes: list[Inbox] = []

    def tuple_bytes(self) -> float:
        """Mean size of the tuples that came; 0 without an input."""
        return self._mean([each.tuple_bytes for each in self.inboxes])

    def beyond_s(self) -> float:
        """Mean CPU seconds of the tuples that came, beyond the task's `service_s`."""
        return self._mean([each.beyond_s for each in self.inboxes])

    def _mean(self, values: list[float]) -> float:
        if not values or min(values) == max(values):
            return values[0] if values else 0.0
        sent = [each.sent for each in self.inboxes]
        if not any(sent):  # nothing came yet
            sent = [1] * len(values)
        return sum(value * tuples for value, tuples in zip(values, sent, strict=True)) / sum(sent)
