"""Shipping of partial results to the consolidates that merge them: each goes to the owner of its key group in its span.

A thread beside the operator's own sends them (Enorm, Section 5.1.1), so they wait for no credits. The work is charged
to the operator (`Owed`), and the punctuations behind them never overtake them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from twin.engine.windows.ownership import Ownership
from twin.engine.windows.panes import Partial, SpanContent
from twin.panes import Span

if TYPE_CHECKING:
    from twin.engine.logic import Station
    from twin.engine.streams.channel import Port, StreamCounts


class Owed:
    """CPU work that a thread beside a task still has to do. While there is any, both get the same part of the core."""

    def __init__(self) -> None:
        self.work_s = 0.0

    def pay(self, own_s: float) -> float:
        """Does the work that fits beside `own_s` CPU seconds of the task's own work. Returns the CPU seconds done."""
        paid_s = self.work_s if self.work_s < own_s else own_s
        self.work_s -= paid_s
        return paid_s


class Shipping:
    """Sends partial results from one replica to one consumer. longest_us: the consumer's longest window. made_s: CPU
    seconds to make a result, besides sending it.

    together: whether both are one component. Then results are handed over at once by `here`, cost nothing, and both
    owners keep them while a key group changes hands. held: returns the replica's content over a span.
    """

    def __init__(
        self, task: Station, port: Port, ownership: Ownership, counts: StreamCounts, longest_us: int, made_s: float
    ) -> None:
        self.task = task
        self.made_s = made_s
        self.here: Callable[[Span, SpanContent], None] | None = None
        self.held: Callable[[Span], SpanContent] | None = None
        self.port = port
        self.ownership = ownership
        self.counts = counts
        self.longest_us = longest_us
        self.together = False

    def ship(self, span: Span, content: SpanContent, at_s: float, sender: int) -> float:
        """Sends the results over a span. Returns the CPU seconds of sending them."""
        sent, work_s = 0, 0.0
        for owner, part in self._parts(span, content, sender):
            if not part.keys:
                continue
            if self.together and owner == sender and self.here is not None:
                self.here(span, part)
                continue
            for piece in self._pieces(span, part, at_s):
                sent += 1
                work_s += self._send(piece, owner)
        self.counts.copies += sent - content.keys
        return work_s

    def to(self, owner: int, span: Span, content: SpanContent, at_s: float) -> float:
        """Sends results again, to one owner. Returns the CPU seconds of sending them."""
        work_s = 0.0
        for piece in self._pieces(span, content, at_s):
            self.counts.copies += 1
            work_s += self._send(piece, owner)
        return work_s

    def _pieces(self, span: Span, content: SpanContent, at_s: float) -> list[Partial]:
        return [Partial(at_s, span, content.single(key)) for key in sorted(content.held)]

    def _send(self, piece: Partial, owner: int) -> float:
        path = self.port.paths[owner]
        self.port.transfer(path, piece)
        return self.made_s + path.send_s

    def _parts(self, span: Span, content: SpanContent, sender: int) -> list[tuple[int, SpanContent]]:
        """Splits results by the owner that gets them. The new owner of a key group may have been the sender before: for
        windows that still are the old owner's, it sends its content from before the cut. Later tuples came to both."""
        parts = [(owner, content.only(groups)) for owner, groups in self._owners(span, sender)]
        if not self.together or self.held is None:
            return parts
        for cut in self.ownership.cuts:
            back = [group for group, new in cut.new.items() if new == sender and not cut.after(span)]
            back = [group for group in back if content.only([group]).keys]
            if back:
                early = self.held(Span(span.start, min(span.end, cut.at_us)))
                parts += [(cut.old[group], early.only([group])) for group in back]
        return parts

    def _owners(self, span: Span, sender: int) -> list[tuple[int, list[int]]]:
        """Owners that need results over this span, each with the key groups that it needs."""
        owner_g = self.ownership.keys.owners().copy()
        more: list[tuple[int, list[int]]] = []
        for cut in self.ownership.cuts:
            for_old, for_new = cut.needed(span, self.longest_us)
            for group in cut.new:
                if self.together and sender in (cut.old[group], cut.new[group]):
                    owner_g[group] = sender
                    continue
                owner_g[group] = cut.old[group] if for_old else cut.new[group]
                if for_old and for_new:
                    more.append((cut.new[group], [group]))
        by_owner = [(int(owner), np.flatnonzero(owner_g == owner).tolist()) for owner in np.unique(owner_g)]
        return by_owner + more
