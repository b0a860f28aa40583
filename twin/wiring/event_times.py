"""Event time in a query: its panes, and who tells whom how far it is."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from twin.event_time import merged_windows, partial_panes
from twin.panes import Panes, panes_of
from twin.query import Query, Stream
from twin.windows import US_PER_S, EventWindow

WATERMARKS = Panes(US_PER_S // 5, 0)
"""Event time between a source's watermarks where these end no windows: Flink's pipeline.auto-watermark-interval."""


def as_window(panes: Panes) -> EventWindow:
    """Panes as the instances of a tumbling window."""
    return EventWindow(length_s=panes.length_us / US_PER_S, start_s=panes.offset_us / US_PER_S)


@dataclass(frozen=True)
class EventTimes:
    """Of a query. Operators over event time, and those that bring it there, heed punctuations."""

    query: Query

    @cached_property
    def timed(self) -> list[str]:
        """Operators over event time, in data-flow order."""
        return [operator.name for operator in self.query.topological if operator.needs_event_time]

    @cached_property
    def heeding(self) -> set[str]:
        """The names of operators over event time, and of all operators before them."""
        return set(self.timed).union(*(self.query.ancestors(name) for name in self.timed))

    def panes(self, name: str) -> Panes | None:
        """The panes of an operator over event time; None for one that keeps its state forever."""
        operator = self.query.operator(name)
        windows: tuple[EventWindow, ...] = getattr(operator, "windows", ())
        if operator.hands_over == "partials":
            return partial_panes(self.query, name)
        if operator.hands_over == "pairs":
            return WATERMARKS
        if operator.merges:
            return panes_of([*windows, *(each for stream in self.query.inputs(name) for each in self._sent(stream))])
        return panes_of(windows) if windows else None

    def _sent(self, stream: Stream) -> tuple[EventWindow, ...]:
        """Over which spans results come that are merged."""
        producer = self.query.operator(stream.producer)
        if producer.hands_over == "partials":
            return (as_window(partial_panes(self.query, producer.name)),)
        return tuple(getattr(producer, "windows", ()))

    def sides(self, name: str) -> list[tuple[EventWindow, ...]]:
        """The windows that come whole on each input of a consolidate; none where its own panes come."""
        own, sent = self.panes(name), [self._sent(stream) for stream in self.query.inputs(name)]
        assert own is not None
        return [() if windows == (as_window(own),) else windows for windows in sent]

    @cached_property
    def finest(self) -> Panes:
        """The panes of which all other panes are made."""
        found = [panes for name in self.timed if (panes := self.panes(name)) is not None]
        return panes_of([as_window(panes) for panes in found]) if found else Panes(US_PER_S, 0)

    def merged_windows(self, name: str) -> tuple[EventWindow, ...]:
        """All windows that are made of an operator's panes."""
        return merged_windows(self.query, name)
