"""Conservation laws that every run must obey. A violation is a fault of the simulator, never of the scenario."""

from __future__ import annotations

import math
from collections import defaultdict

from twin.guards import event_windows
from twin.job import Job
from twin.world.parts import Leg, Processor, Task
from twin.world.world import World


class ConservationError(RuntimeError):
    """Error of a run that created or lost records, or did more work than its processors can."""


def check(job: Job, world: World) -> None:
    """Raises ConservationError, naming the law and the place, if a finished run breaks one."""
    _brokers(world)
    _streams(job, world)
    _routes(world)
    _restarts(world)
    _migrations(world)
    _operators(world)
    _work(world)
    wrong = event_windows.violation(job.query, world)
    if wrong:
        raise ConservationError(f"a window over event time: {wrong}")


def _require(equal: bool, law: str, place: str, left: float, right: float) -> None:
    if not equal:
        raise ConservationError(f"{law} at {place}: {left} != {right}")


def _brokers(world: World) -> None:
    for brokers in world.brokers.values():
        for broker in brokers:
            taken = broker.source.records_in + broker.backlog
            offered = broker.arrived + broker.moved + world.ledger.replayed[broker.source.name]
            _require(
                offered == taken, "arrived + moved + replayed = taken + backlog", broker.source.name, offered, taken
            )


def _streams(job: Job, world: World) -> None:
    for number, edge in enumerate(job.edges):
        producer = job.components[edge.producer].name
        producers = [*world.tasks[producer], *world.ledger.retired.get(producer, ())]
        inboxes = world.streams[edge.key].inboxes
        copies = edge.how.count_of_copies(len(inboxes))
        position = job.components[edge.producer].outputs.index(number)
        waiting = sum(task.ports[position].waiting() for task in producers)
        stage = [each.name for each in job.components[edge.producer].operators].index(edge.stream.producer)
        made = sum(task.logic.left(stage) - task.ports[position].passed_over for task in producers) * copies
        ledger = world.ledger
        sent = sum(inbox.sent for inbox in inboxes)
        lost = sum(task.ports[position].dropped for task in producers) + ledger.unsent[edge.key]
        known = sent + waiting + lost - world.streams[edge.key].counts.copies
        _require(made == known, "made = sent + waiting + lost unsent - copied", " -> ".join(edge.key), made, known)
    sent = sum(inbox.sent for made in world.streams.values() for inbox in made.inboxes)
    ledger = world.ledger
    here = sum(task.records_in + task.queued for task in _tasks(world) if not task.polls)
    here += sum(buffer.queued for buffer in ledger.buffers)
    carried = sum(card.records_in - card.records_out for card in world.every_card())
    flying = carried - ledger.transfers
    left, right = sent + ledger.restored, here + flying + ledger.lost
    _require(left == right, "sent + restored = taken + queued + in flight + lost", "the network", left, right)


def _tasks(world: World) -> list[Task]:
    """Tasks that exist or existed."""
    return [task for tasks in (*world.tasks.values(), *world.ledger.retired.values()) for task in tasks]


def _restarts(world: World) -> None:
    """Checks that all that a checkpoint held was restored from it."""
    ledger = world.ledger
    _require(ledger.restored == ledger.due, "held by checkpoints = restored", "queues", ledger.due, ledger.restored)
    due, restored = ledger.windows_due, ledger.windows_restored
    _require(math.isclose(due, restored, abs_tol=1e-6), "held by checkpoints = restored", "windows", due, restored)


def _migrations(world: World) -> None:
    """Checks that key groups are with existing subtasks or on their way, and that new owners got waiting records."""
    for name, keys in world.key_groups.items():
        for owner in set(keys.owner):
            holder = keys.tasks[owner]
            waits = any(buffer is holder and buffer.target is None for buffer in world.ledger.buffers)
            home = holder in world.tasks[name] or waits
            _require(home, "key groups have a home", name, owner, len(world.tasks[name]))
    for buffer in world.ledger.buffers:
        left = buffer.queued if buffer.target is not None else 0
        _require(not left, "buffered records are handed over", "a migration", left, 0)
    for name, retired in world.ledger.retired.items():
        left = sum(task.queued for task in retired)
        _require(not left, "subtasks that left have nothing to do", name, left, 0)


def _routes(world: World) -> None:
    """Checks that a card or link carries what its streams put on it, and that no stream gains records at a hop."""
    for name, card in (*world.cards.items(), *world.links.items()):
        _require(card.records_in >= card.records_out, "in = out + in flight", name, card.records_in, card.records_out)
        legs = [hop for hop in card.hops if isinstance(hop, Leg)]
        if len(legs) < len(card.hops):  # without links, records go straight from the card
            continue
        records, size = sum(leg.records for leg in legs), sum(leg.records * leg.bytes_each for leg in legs)
        _require(records == card.records_in, "records carried = records sent", name, card.records_in, records)
        _require(
            math.isclose(size, card.bytes_out, abs_tol=1), "bytes carried = bytes sent", name, card.bytes_out, size
        )
        onward = sum(leg.onward.records for leg in legs if leg.onward is not None)
        ended = sum(leg.records for leg in legs if leg.onward is None)
        _require(
            onward <= card.records_out <= onward + ended + world.ledger.cut_short[card],
            "arrived = onward + delivered",
            name,
            card.records_out,
            onward,
        )


def _operators(world: World) -> None:
    for task in _tasks(world):
        for law, came, went in task.logic.balances(world.ledger.aborted[task.name]):
            _require(came == went, law, task.name, came, went)


def _work(world: World) -> None:
    ahead = defaultdict[Processor, float](float, world.ledger.moving_s)
    for task in _tasks(world):
        ahead[task.processor] += _ahead_s(task)
    for location, processor in world.processors.items():
        limit = processor.capacity * world.env.now * (1 + 1e-9) + ahead[processor]
        if processor.work_s > limit:
            raise ConservationError(f"work <= capacity * time at {location}: {processor.work_s} != {limit}")


def _ahead_s(task: Task) -> float:
    """Core-seconds of a task's work that may lie beyond the end of the run, as work is booked when it begins."""
    service_s = task.in_service_work_s if task.busy else 0.0
    return service_s + max(0.0, task.engaged_until_s - task.env.now) * task.processor.speed
