"""Reconfiguration: moves and scalings, one at a time for each operator, and once more if a failure interrupts one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import simpy

from twin.change.failover import Restarts
from twin.change.fan import dealt_group_flows, even_flows, even_group_flows, flows_to
from twin.change.migration import combine, component, flows_to_subtasks, is_together, migrate, split
from twin.change.running_job import Process, RunningJob, add_subtask, dismiss, lead_event_time, move_subtask
from twin.events import Combine, Move, Repartition, Rescale, Split
from twin.plan import Location
from twin.world.brokers import deal_partitions
from twin.world.meters import EventRecord
from twin.world.parts import Task


class Reconfigurer:
    """Changes a running job. restarts: the restarts in which an engine makes changes; None if changes are live."""

    def __init__(self, job: RunningJob, restarts: Restarts | None = None) -> None:
        self.job = job
        self.restarts = restarts
        self.world = job.world
        self.env = job.env
        self._made_for_groups: set[Task] = set()
        self._leaving: set[Task] = set()  # on which other changes may not count
        self._locks: dict[str, simpy.Resource] = {}

    # requests: each is a process -----------------------------------------------------------------------------------

    def move(self, move: Move) -> Process:
        """Carries out a move."""
        if move.subtask is None:
            yield from self.regroup([move])
            return
        record = self.world.ledger.record("migration", move.operator, self.env.now)
        if self._lost(_places(move), record):
            return
        yield from self._in_turn(move.operator, [record], lambda: self._moved(move, record))

    def rescale(self, rescale: Rescale) -> Process:
        """Gives an operator other subtasks."""
        record = self.world.ledger.record("scale", rescale.operator, self.env.now)
        if self._lost(rescale.locations, record):
            return
        yield from self._in_turn(rescale.operator, [record], lambda: self._rescaled(rescale, record))

    def regroup(self, moves: Sequence[Move], retire: bool = False) -> Process:
        """Carries out several moves of key groups of one operator at the same time.

        Subtasks that are made for them go away once they have no key group; with `retire`, all subtasks without one do.
        """
        operator = moves[0].operator
        asked = [(move, self.world.ledger.record("migration", operator, self.env.now)) for move in moves]
        going = [(move, record) for move, record in asked if not self._lost(_places(move), record)]
        if not going:
            return
        moves, records = zip(*going, strict=True)
        yield from self._in_turn(
            operator, records, lambda: self._regrouped(moves, records), lambda: self._retired(operator, retire)
        )

    def operate(self, event: Repartition | Split | Combine) -> Process:
        """Carries out an operation on a component over event time."""
        record = self.world.ledger.record(event.kind, event.operator, self.env.now)
        if self.job.world.engine.rescaling.stops:
            self.job.refuse(record, f"engine {self.job.world.engine.name!r} changes the plan by a restart")
            return
        lock = self._locks.get(component(self.job, event.operator))
        if isinstance(event, Combine) and lock is not None and lock.count:
            self.job.refuse(record, "a migration of its component is under way; combine when it has ended")
            return
        yield from self._in_turn(event.operator, [record], lambda: self._operated(event, record))

    def _in_turn(
        self,
        operator: str,
        records: Sequence[EventRecord],
        attempt: Callable[[], Process],
        afterwards: Callable[[], Process] | None = None,
    ) -> Process:
        """Makes a change after earlier changes of the component, again and again until no failure undoes it."""
        job, checkpoints = self.job, self.job.checkpoints
        job.availability.changes += 1
        if self.restarts is not None:
            yield from self.restarts.change(attempt, records)
            yield from self._ended(records, afterwards)
        else:
            lock = self._locks.setdefault(component(job, operator), simpy.Resource(self.env))
            with lock.request() as turn:
                yield turn
                done = False
                while not done:
                    yield from job.availability.up()
                    checkpoints.plan_changes()
                    done = yield from attempt()
                    for record in records if not done else ():
                        record.detail["interrupted"] = record.detail.get("interrupted", 0) + 1
                checkpoints.plan_changed()
                yield from self._ended(records, afterwards)
        job.availability.changes -= 1

    def _ended(self, records: Sequence[EventRecord], afterwards: Callable[[], Process] | None) -> Process:
        for record in records:
            record.end_s = self.env.now
        if afterwards is not None:
            yield from afterwards()

    # attempts, which return whether no failure undid them --------------------------------------------------------

    def _moved(self, move: Move, record: EventRecord) -> Process:
        assert move.subtask is not None and move.to is not None
        if not self._exists(move.operator, move.subtask, record):
            return True
        record.detail |= {"subtask": move.subtask, "to": move.to}
        if self._lost(_places(move), record):
            return True
        task, place = self._staying(move.operator)[move.subtask], Location.parse(move.to)
        work = move_subtask(self.job, task, move.operator, place, record)
        return (yield from self.job.availability.all_done([work]))

    def _regrouped(self, moves: Sequence[Move], records: Sequence[EventRecord]) -> Process:
        begun = []
        for move, record in zip(moves, records, strict=True):
            target = self._receiver(move, record)
            if target is not None:
                keys, index = self.world.key_groups[move.operator], self.job.fan(move.operator).index(target)
                flows = flows_to(keys, dict.fromkeys(move.key_groups, index))
                begun.append(self.env.process(migrate(self.job, move.operator, flows, move.strategy, record)))
        done = yield self.env.all_of(begun)
        return all(done.values())

    def _operated(self, event: Repartition | Split | Combine, record: EventRecord) -> Process:
        match event:
            case Repartition():
                flows = flows_to_subtasks(self.job, event.operator, dict(enumerate(event.owners)), record)
                return (yield from migrate(self.job, event.operator, flows, event.strategy, record))
            case Split():
                return (yield from split(self.job, event.operator, event.owners, record))
            case Combine():
                return (yield from combine(self.job, event.operator, event.strategy, record))

    def _rescaled(self, rescale: Rescale, record: EventRecord) -> Process:
        """Makes and wires new subtasks, redistributes the input and the state, and takes other subtasks away."""
        job, operator, wanted = self.job, rescale.operator, rescale.locations
        fan = job.fan(operator)
        tasks = self._staying(operator)
        record.detail.setdefault("before", len(tasks))
        record.detail["after"] = len(wanted)
        if is_together(job, operator):
            job.refuse(record, f"{operator!r} is one component with another; split it first")
            return True
        if self._lost(wanted, record):
            return True
        missing = Counter(wanted)
        leaving = []
        for task in tasks:
            if missing[task.place] > 0:
                missing[task.place] -= 1
            else:
                leaving.append(task)
        for place in wanted:
            if missing[place] > 0:
                missing[place] -= 1
                tasks.append(add_subtask(job, operator, place))
        stay = [fan.index(task) for task in tasks if task not in leaving]
        if tasks[0].polls:
            staying = [task for task in tasks if task not in leaving]
            deal_partitions(job.world, job.world.query.operator(operator), staying)
            job.checkpoints.plan_changed()
        elif fan.keys is None and not any(task.logic.keeps for task in tasks):
            fan.become([1.0 / len(stay) if index in stay else 0.0 for index in range(len(fan.slots))])
            job.checkpoints.plan_changed()
        else:
            by_group = even_group_flows if self.restarts is None else dealt_group_flows
            flows = by_group(fan.keys, stay) if fan.keys is not None else even_flows(fan.shares, stay)
            if not (yield from migrate(job, operator, flows, None, record)):
                return False
        for task in leaving:
            self._leaving.add(task)
            if self.restarts is None:
                yield from dismiss(job, operator, task)
            else:
                self.restarts.leaving.append(dismiss(job, operator, task))
        self._pair(operator)
        return True

    def _pair(self, operator: str) -> None:
        """Leads forward streams from and to an operator anew once both ends have as many subtasks again: between those
        of the same number. Those that leave send what they have left to the first one."""
        plan = self.world.job
        for edge in (*plan.inputs(operator), *plan.outputs(operator)) if self.restarts is not None else ():
            names = plan.components[edge.producer].name, plan.components[edge.consumer].name
            producers, consumers = map(self._staying, names)
            if edge.how.paired and len(producers) == len(consumers):
                leaving = [task for task in self.world.tasks[names[0]] if task in self._leaving]
                fan = self.job.fan(names[1])
                paired = [*producers, *leaving], [*consumers, *consumers[:1] * len(leaving)]
                fan.pair(edge.stream, *paired)
                lead_event_time(self.job, edge.stream, *paired)
                self.job.checkpoints.plan_changed()

    # subtasks ------------------------------------------------------------------------------------------------------

    def _staying(self, operator: str) -> list[Task]:
        """Subtasks of an operator without those that leave, with the next restart at the latest."""
        return [task for task in self.world.tasks[operator] if task not in self._leaving]

    def _exists(self, operator: str, subtask: int, record: EventRecord) -> bool:
        count = len(self._staying(operator))
        if subtask >= count:
            self.job.refuse(record, f"it has no subtask {subtask}; it has {count}, counted from 0")
        return subtask < count

    def _lost(self, places: Iterable[Location], record: EventRecord) -> bool:
        """Whether a host is lost: then refuses the change. Asked before anything stops for it, and again when it is
        made."""
        gone = [place.host for place in places if place.host in self.job.lost]
        if gone:
            self.job.refuse(record, f"host {gone[0]} is lost")
            record.end_s = self.env.now
        return bool(gone)

    def _receiver(self, move: Move, record: EventRecord) -> Task | None:
        """Subtask to which key groups move, made if there is none at the place; None if its number or host does not
        exist."""
        tasks = self._staying(move.operator)
        record.detail["key_groups"] = list(move.key_groups)
        if move.to is None:
            assert move.to_subtask is not None
            record.detail["to_subtask"] = move.to_subtask
            return tasks[move.to_subtask] if self._exists(move.operator, move.to_subtask, record) else None
        record.detail["to"] = move.to
        place = Location.parse(move.to)
        if self._lost([place], record):
            return None
        there = next((task for task in tasks if task.place == place), None)
        if there is None and is_together(self.job, move.operator):
            self.job.refuse(record, f"{move.operator!r} is one component with another; split it first")
        elif there is None:
            there = add_subtask(self.job, move.operator, place)
            self._made_for_groups.add(there)
        return there

    def _retired(self, operator: str, all_empty: bool) -> Process:
        """Takes away subtasks without key groups: only those that were made for a move, or all of them."""
        keys, fan = self.world.key_groups.get(operator), self.job.fan(operator)
        if keys is None:
            return
        owners = set(keys.owner)
        empty = [task for task in self._staying(operator) if fan.index(task) not in owners]
        leaving = [task for task in empty if all_empty or task in self._made_for_groups]
        self._leaving.update(leaving)
        for task in leaving:
            yield from dismiss(self.job, operator, task)
            self.job.checkpoints.plan_changed()


def _places(move: Move) -> list[Location]:
    return [] if move.to is None else [Location.parse(move.to)]
