"""Carries out moves and scalings, one at a time for each operator, and again if a failure comes in between."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any

import simpy

from twin.change import migration, scaling
from twin.change.fan import Fan
from twin.change.joining import join
from twin.change.strategies import migrations
from twin.engine.measure.ledger import EventRecord
from twin.engine.station.task import Task
from twin.engine.streams.route import destination
from twin.errors import BadInput
from twin.event_checks import check_move, check_rescale
from twin.event_time_events import Combine, Repartition, Split
from twin.events import Move, Rescale
from twin.plan import Location

if TYPE_CHECKING:
    from twin.change.rewiring import Rewiring
    from twin.engine.measure.meters import Statistics

Process = Generator[simpy.Event, Any, Any]


class Reconfigurer:
    """Changes a running job. `outage`: the event that ends the current one; None while the job is up."""

    def __init__(self, wiring: Rewiring, statistics: Statistics) -> None:
        self.wiring = wiring
        self.world = wiring.world
        self.env = wiring.world.env
        self.statistics = statistics
        self.outage: simpy.Event | None = None
        self.on_begin: Callable[[], None] = lambda: None  # no checkpoint goes on, where there are any
        self.on_change: Callable[[], None] = lambda: None  # and there is one
        self.on_arrival: Callable[[Task], None] = lambda _: None  # which does not have a new replica, and should
        self.under_way = 0
        self._made_here: set[Task] = set()  # replicas that key groups asked for
        self._transfers: list[simpy.Process] = []  # what a failure interrupts
        self._locks: dict[str, simpy.Resource] = {}

    # requests ------------------------------------------------------------------------------------------------------

    def move(self, move: Move) -> Process:
        """A process that carries out a move."""
        if move.replica is None:
            yield from self.regroup([move])
            return
        record = self.world.ledger.record("migration", move.operator, self.env.now)
        name = migrations.component(self, move.operator)
        yield from self._whole(name, [record], lambda: self._moved(move, record))

    def rescale(self, rescale: Rescale) -> Process:
        """A process that gives an operator other replicas."""
        record = self.world.ledger.record("scale", rescale.operator, self.env.now)
        wanted = [Location.parse(text) for text in rescale.placement]
        name = migrations.component(self, rescale.operator)
        yield from self._whole(name, [record], lambda: scaling.rescale(self, rescale.operator, wanted, record))

    def regroup(self, moves: Sequence[Move], retire: bool = False) -> Process:
        """A process that carries out several moves of key groups of one operator at the same time.

        Replicas that are made for them go away once they have none; with `retire` all that have none do.
        """
        operator = moves[0].operator
        records = [self.world.ledger.record("migration", operator, self.env.now) for _ in moves]
        name = migrations.component(self, operator)
        yield from self._whole(
            name, records, lambda: self._regrouped(moves, records), lambda: self._retired(operator, retire)
        )

    def operate(self, event: Repartition | Split | Combine) -> Process:
        """A process that carries out an operation on a component over event time."""
        record = self.world.ledger.record(event.kind, event.operator, self.env.now)
        name = migrations.component(self, event.operator)
        if isinstance(event, Combine) and self._locks.get(name) is not None and self._locks[name].count:
            self.refuse(record, "a migration of its component is under way; combine when it has ended")
            return
        yield from self._whole(name, [record], lambda: self._operated(event, record))

    def _operated(self, event: Repartition | Split | Combine, record: EventRecord) -> Process:
        match event:
            case Repartition():
                flows = migrations.to_replicas(self, event.operator, event.owners, record)
                return (yield from migrations.move_groups(self, event.operator, flows, event.strategy, record))
            case Split():
                return (yield from migrations.split(self, event.operator, event.owners, record))
            case Combine():
                return (yield from migrations.combine(self, event.operator, event.strategy, record))

    def _whole(
        self,
        operator: str,
        records: Sequence[EventRecord],
        attempt: Callable[[], Process],
        afterwards: Callable[[], Process] | None = None,
    ) -> Process:
        lock = self._locks.setdefault(operator, simpy.Resource(self.env))
        self.under_way += 1
        with lock.request() as turn:
            yield turn
            done = False
            while not done:
                yield from self.up()
                self.on_begin()
                done = yield from attempt()
                for record in records if not done else ():
                    record.detail["interrupted"] = record.detail.get("interrupted", 0) + 1
            for record in records:
                record.end_s = self.env.now
            self.on_change()
            if afterwards is not None:
                yield from afterwards()
        self.under_way -= 1

    def _moved(self, move: Move, record: EventRecord) -> Process:
        assert move.replica is not None and move.to is not None
        if not self._exists(move.operator, move.replica, record):
            return True
        record.detail |= {"replica": move.replica, "to": move.to}
        task, place = self.world.tasks[move.operator][move.replica], Location.parse(move.to)
        return (yield from self.interruptible(migration.move_replica(self, task, move.operator, place, record)))

    def _regrouped(self, moves: Sequence[Move], records: Sequence[EventRecord]) -> Process:
        operator = moves[0].operator
        if operator in self.wiring.event_times.heeding:
            return (yield from self._regrouped_in_event_time(moves, records))
        fan = self.wiring.fan(operator)
        flows: list[tuple[migration.Flow, EventRecord]] = []
        for move, record in zip(moves, records, strict=True):
            target = self._receiver(move, record)
            if target is not None:
                found = migration.group_flows(fan, move.key_groups, fan.index(target))
                flows += [(flow, record) for flow in found]
        return (yield from self.together(flows, fan))

    def _regrouped_in_event_time(self, moves: Sequence[Move], records: Sequence[EventRecord]) -> Process:
        """All at the same time."""
        fan = self.wiring.fan(moves[0].operator)
        begun = []
        for move, record in zip(moves, records, strict=True):
            target = self._receiver(move, record)
            if target is not None:
                flows = migration.group_flows(fan, move.key_groups, fan.index(target))
                work = migrations.move_groups(self, move.operator, flows, move.strategy, record)
                begun.append(self.env.process(work))
        done = yield self.env.all_of(begun)
        return all(done.values())

    def _receiver(self, move: Move, record: EventRecord) -> Task | None:
        """The replica that key groups move to, made if there is none at their place; None if there is no such one."""
        tasks = self.world.tasks[move.operator]
        record.detail["key_groups"] = list(move.key_groups)
        if move.to is None:
            assert move.to_replica is not None
            record.detail["to_replica"] = move.to_replica
            return tasks[move.to_replica] if self._exists(move.operator, move.to_replica, record) else None
        record.detail["to"] = move.to
        place = Location.parse(move.to)
        there = next((task for task in tasks if self.wiring.places[task] == place), None)
        return there or self._made(move.operator, place)

    def _made(self, operator: str, place: Location) -> Task:
        task = self.added(operator, place)
        self._made_here.add(task)
        return task

    def added(self, operator: str, place: Location) -> Task:
        """A new replica, which gets no tuples yet."""
        task = self.wiring.add_replica(operator, place)
        self.statistics.joined(operator, task, self.env.now)
        self.on_arrival(task)
        if operator in self.wiring.event_times.heeding:
            join(self.wiring, operator, task)
            self.on_change()
        return task

    def _retired(self, operator: str, all_empty: bool) -> Process:
        """Takes away replicas without key groups: those that were made for some, or all."""
        keys, fan = self.world.key_groups.get(operator), self.wiring.fan(operator)
        if keys is None:
            return
        owners = set(keys.owner)
        empty = [each for each in self.world.tasks[operator] if fan.index(each) not in owners]
        for task in empty:
            if all_empty or task in self._made_here:
                yield from scaling.dismiss(self, operator, task)
                self.on_change()

    def _exists(self, operator: str, replica: int, record: EventRecord) -> bool:
        count = len(self.world.tasks[operator])
        if replica >= count:
            self.refuse(record, f"it has no replica {replica}; it has {count}, counted from 0")
        return replica < count

    def refuse(self, record: EventRecord, why: str) -> None:
        """Notes that nothing was done, and why."""
        record.detail["refused"] = why
        self.world.ledger.warnings.append(f"{record.kind} of {record.component} at {record.at_s:g} s: {why}")

    # parts ---------------------------------------------------------------------------------------------------------

    def interruptible(self, work: Process) -> Process:
        """Runs work that a failure ends early; whether it was done."""
        process = self.env.process(_caught(work))
        self._transfers.append(process)
        done = yield process
        self._transfers = [other for other in self._transfers if other is not process]
        return bool(done)

    def together(self, flows: Sequence[tuple[migration.Flow, EventRecord]], fan: Fan) -> Process:
        """Carries out flows of state at the same time, each for a record; whether all were done."""
        done = yield from self.all_done([migration.move_part(self, fan, *each) for each in flows])
        migration.reshare(fan)
        return done

    def all_done(self, works: Sequence[Process]) -> Process:
        """Does works at the same time, which a failure ends early; whether all were done."""
        processes = [self.env.process(_caught(work)) for work in works]
        self._transfers += processes
        results = yield self.env.all_of(processes)
        self._transfers = [other for other in self._transfers if other not in processes]
        return all(results.values())

    def up(self) -> Process:
        """Waits until no outage is left."""
        while self.outage is not None:
            yield self.outage

    def interrupt(self) -> None:
        """A failure: whatever is being moved is back where it was."""
        for process in self._transfers:
            if process.is_alive:
                process.interrupt()
        self._transfers = []

    def outstanding(self, task: Task) -> int:
        """Tuples queued at a task, on the way to it, and waiting to be sent to it."""
        flying = sum(
            record.n
            for record in self.world.in_flight()
            if (inbox := destination(record)) is not None and inbox.task is task
        )
        unsent = sum(
            record.n
            for tasks in self.world.tasks.values()
            for producer in tasks
            for port in producer.ports
            for path, record in port.unsent()
            if path.inbox.task is task
        )
        return task.queued + flying + unsent

    def check(self, moves: Sequence[Move], rescales: Sequence[Rescale], whose: str) -> None:
        """Raises BadInput if a policy orders what cannot be."""
        placement = {name: tuple(map(str, tasks)) for name, tasks in self.world.tasks.items()}
        for rescale in rescales:
            try:
                check_rescale(rescale, self.wiring.deployment, whose)
            except ValueError as error:
                raise BadInput(str(error)) from None
        for move in moves:
            try:
                check_move(move, self.wiring.deployment, whose, None if rescales else placement)
            except ValueError as error:
                raise BadInput(str(error)) from None


def _caught(work: Process) -> Process:
    try:
        yield from work
    except simpy.Interrupt:
        return False
    return True
