"""What a task's records are like on average, where they come on several streams: by what came on each."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from twin.engine.streams.channel import Inbox


class Inputs:
    """One task's: its inboxes, one a stream; none of a source."""

    __slots__ = ("_tuple_bytes", "inboxes")

    def __init__(self) -> None:
        self.inboxes: list[Inbox] = []
        self._tuple_bytes: float | None = 0.0  # what is the same on all streams; else None, and a mean is taken

    def add(self, inbox: Inbox) -> None:
        """Another stream."""
        self.inboxes.append(inbox)
        sizes = [each.tuple_bytes for each in self.inboxes]
        self._tuple_bytes = sizes[0] if min(sizes) == max(sizes) else None

    def tuple_bytes(self) -> float:
        """Mean size of the records that came; 0 without an input."""
        if self._tuple_bytes is not None:
            return self._tuple_bytes
        sent = [each.sent for each in self.inboxes]
        if not any(sent):  # nothing came yet
            sent = [1] * len(sent)
        sizes = [each.tuple_bytes * count for each, count in zip(self.inboxes, sent, strict=True)]
        return sum(sizes) / sum(sent)
