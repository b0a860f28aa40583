"""How partial results get to the consolidates that merge them: a key group's to whoever has it, for that span of time.

A thread beside the operator's own sends them (Enorm, Section 5.1.1), so they wait for no credits. The work is charged
to the operator (`Owed`), and the punctuations behind them never overtake them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from twin.engine.windows.ownership import Copied, Ownership
from twin.engine.windows.panes import Partial, SpanContent
from twin.panes import Span

if TYPE_CHECKING:
    from twin.engine.logic import Station
    from twin.engine.streams.channel import Port


class Owed:
    """CPU work of a thread beside a task: while there is any, it gets as much of the core as the task's own tuples."""

    def __init__(self) -> None:
        self.work_s = 0.0

    def pay(self, own_s: float) -> float:
        """What is done of it beside so much of the task's own work."""
        paid_s = self.work_s if self.work_s < own_s else own_s
        self.work_s -= paid_s
        return paid_s


class Shipping:
    """From one replica to one consumer. longest_us: of the consumer's windows. made_s: CPU seconds of a result, beside
    sending it. together: whether both are one component: then partial results are `here` at once, cost nothing, and
    stay with both owners while a key group changes hands. What the replica has over a span is `held`."""

    def __init__(
        self, task: Station, port: Port, ownership: Ownership, copied: Copied, longest_us: int, made_s: float
    ) -> None:
        self.task = task
        self.made_s = made_s
        self.here: Callable[[Span, SpanContent], None] | None = None
        self.held: Callable[[Span], SpanContent] | None = None
        self.port = port
        self.ownership = ownership
        self.copied = copied
        self.longest_us = longest_us
        self.together = False

    def ship(self, span: Span, content: SpanContent, at_s: float, sender: int) -> float:
        """Sends the results over a span; returns the CPU seconds that it takes to send them."""
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
        self.copied.n += sent - content.keys
        return work_s

    def to(self, owner: int, span: Span, content: SpanContent, at_s: float) -> float:
        """Sends results again, to one owner; returns the CPU seconds that it takes."""
        work_s = 0.0
        for piece in self._pieces(span, content, at_s):
            self.copied.n += 1
            work_s += self._send(piece, owner)
        return work_s

    def _pieces(self, span: Span, content: SpanContent, at_s: float) -> list[Partial]:
        return [Partial(at_s, span, content.single(key)) for key in sorted(content.held)]

    def _send(self, piece: Partial, owner: int) -> float:
        path = self.port.paths[owner]
        self.port.transfer(path, piece)
        return self.made_s + path.send_s

    def _parts(self, span: Span, content: SpanContent, sender: int) -> list[tuple[int, SpanContent]]:
        """What goes to whom. A new owner may have had a key group before: of windows that are still the old owner's it
        sends what it has from before the cut; later tuples came to both."""
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
        """Who needs which key groups' results over that span."""
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
        found = [(int(owner), np.flatnonzero(owner_g == owner).tolist()) for owner in np.unique(owner_g)]
        return found + more
