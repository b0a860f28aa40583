"""Fast: consumers are told which of them get tuples at the same moments."""

from __future__ import annotations

from collections.abc import Iterable

from twin.engine.compute.bunches import ALONE, Coming
from twin.engine.compute.processor import Processor
from twin.engine.station.task import Task
from twin.engine.streams.channel import Inbox, Port


def tell(port: Port, each: float, times: float = 1.0, denser: float = 1.0) -> None:
    """That a port lets so many tuples go at one moment for each consumer replica. times, denser: see Coming."""
    taking = [port.paths[index].inbox for index, weight in enumerate(port.deal.weights) if weight > 0.0]
    tell_all(taking, each, times, denser)


def tell_all(inboxes: Iterable[Inbox], each: float, times: float = 1.0, denser: float = 1.0) -> None:
    """The same of the consumer replicas that have these inboxes.

    Where `each` is less than one, so many of them get a tuple: of those beside one that does, too.
    """
    takers = [(inbox, inbox.task) for inbox in inboxes if isinstance(inbox.task, Task)]  # else state is on its way
    here: dict[Processor, int] = {}
    for _, taker in takers:
        here[taker.processor] = here.get(taker.processor, 0) + 1
    found: dict[Processor, Coming] = {}
    for inbox, taker in takers:
        processor = taker.processor
        if processor.shared:
            if processor not in found:
                tasks = 1.0 + min(1.0, each) * (here[processor] - 1)
                scv = taker.hidden.tuple_scv / max(1.0, each)
                found[processor] = Coming(tasks, scv, times, denser) if tasks > 1.0 else ALONE
            inbox.coming = found[processor]
