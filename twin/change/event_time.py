"""Windows over event time in a job that goes back to a checkpoint: what was under way is served in the order in which
it was sent, punctuations among it, and what was noted since did not happen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from twin.engine.measure.ledger import Buffer
from twin.engine.record import Mark, Record
from twin.engine.station.task import Task
from twin.engine.streams.route import Leg
from twin.engine.windows.panes import History
from twin.engine.windows.watermark import RELEASE, TimedLogic

if TYPE_CHECKING:
    from twin.wiring.world import World


def furthest_first(flying: Iterable[Record]) -> list[Record]:
    """Records on the network, which are in order of arrival at the end of a hop: those with fewest hops to go lead."""
    return sorted(flying, key=_hops)


def _hops(record: Record) -> int:
    """That it has still to go, beyond the one that it is on."""
    hops, stop = 0, record.inbox
    while isinstance(stop, Leg):
        hops, stop = hops + 1, stop.inbox if stop.onward is None else stop.onward
    return hops


def in_order(unsent: Sequence[Record], sent: Sequence[Record], held: Sequence[Record]) -> list[Record]:
    """As the producer of each sent them. What waits for state, or is on the way to where it will, was sent after all
    that went to the former owner, to whom it comes now."""
    under_way = [*sent, *unsent]
    straight = [record for record in under_way if not _will_wait(record)]
    return [*straight, *held, *(record for record in under_way if _will_wait(record))]


def _will_wait(record: Record) -> bool:
    receiver = record.inbox.task if record.inbox is not None else None
    return isinstance(receiver, Buffer) and receiver.target is None


def go_back(world: World, history: History) -> None:
    """What was noted since then was undone, which is kept to be checked as well."""
    world.undone.append(world.history().copy())
    for name, audit in world.audits.items():
        audit.become(history.audits[name])


def holds_back(record: Record) -> bool:
    """Whether it is where a hold ends: `release` ends all of them."""
    return isinstance(record, Mark) and record.kind == RELEASE


def release(tasks: Iterable[Task]) -> None:
    """No disruptive migration is under way: behind what waits, nobody is held back any more."""
    for task in tasks:
        if isinstance(task.logic, TimedLogic):
            for held_us in task.logic.held_us:
                task.logic.release(held_us)
