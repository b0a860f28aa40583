"""Kinds that the kernel knows, and situations that are left to the engine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from twin.engine.logic import Logic, SinkLogic
from twin.engine.logics.calls import CallLogic
from twin.engine.logics.chain import Chain
from twin.engine.logics.remember import RememberLogic
from twin.engine.logics.select import RouteLogic, SelectLogic, TableLogic
from twin.engine.logics.source import ReplayableSource, SourceLogic
from twin.engine.partitioners import AlignedPartitioner, HashPartitioner, Partitioner, RandomPartitioner, SharedQueue
from twin.engine.record import Record
from twin.engine.station.task import Task
from twin.engine.streams.buffers import BufferPort
from twin.engine.streams.channel import Inbox, Path, Port
from twin.engine.streams.ports import GatheringPort, SheddingPort
from twin.engine.windows.session import SessionLogic
from twin.engine.windows.window import WindowLogic
from twin.kernel import layout as k
from twin.wiring.world import World

LOGICS = {
    Logic: k.PASS,
    SourceLogic: k.READ,
    ReplayableSource: k.READ,
    SelectLogic: k.SELECT,
    TableLogic: k.SELECT,
    SinkLogic: k.COLLECT,
    RouteLogic: k.ROUTE,
    WindowLogic: k.WINDOW_OF,
    RememberLogic: k.REMEMBER,
    SessionLogic: k.SESSION,
    CallLogic: k.CALL,
}
ALONE = {RouteLogic, SessionLogic, CallLogic}
"""Logics that send by themselves: nothing follows them at their station."""
PORTS = {Port, GatheringPort, SheddingPort, BufferPort}
PARTITIONERS = {Partitioner, RandomPartitioner, HashPartitioner, AlignedPartitioner, SharedQueue}
"""Just these classes: derived classes do something else."""


def logics_of(task: Task) -> list[Logic]:
    """Logics of a station, from the first to the last."""
    logic = task.logic
    return [step.logic for step in logic.steps] if isinstance(logic, Chain) else [logic]


def unsupported_part(world: World) -> str | None:
    """Name of a part of a world that the kernel can never run; None if it knows all parts."""
    for task in world.every_task():
        if task.output.lots is not None:
            return "Lot"
        logics = logics_of(task)
        for logic in logics:
            if type(logic) not in LOGICS or logic.tail or (len(logics) > 1 and type(logic) in ALONE):
                return type(logic).__name__
        for port in task.ports:
            if type(port) not in PORTS or type(port.partitioner) not in PARTITIONERS:
                return type(port.partitioner).__name__
    return None


def must_stay_in_engine(world: World) -> bool:
    """Whether something is going on that only the engine knows: a checkpoint, or state on its way."""
    if world.env.awaited:
        return True
    tasks = world.every_task()
    if any(_under_way(task) for task in tasks) or any(_is_mark(event._value) for *_, event in world.env._queue):
        return True
    ports = [port for task in tasks for port in task.ports]
    used = [port.paths.inbox(place) for port in ports for place in port.partitioner.live]
    used += [path.inbox for port in ports for path, _ in _held_back(port)]
    used += [port.paths.inbox(place) for port in ports if isinstance(port, GatheringPort) for place in port._buffers]
    used += [record.inbox for task in tasks for record in _held(task) if isinstance(record.inbox, Inbox)]
    known = {id(task) for task in tasks}
    if _left(world, tasks):
        return True
    for pool in world.pools.values():
        waiting = [keeper for record, keeper in pool.queue if record.n]
        if len(waiting) < len(pool.queue) or any(id(each) not in known for each in [*pool.idle, *waiting]):
            return True
    known |= {id(pool) for pool in world.pools.values()}
    here = {id(inbox) for made in world.streams.values() for inbox in made.inboxes if id(inbox.task) in known}
    return any(id(inbox) not in here for inbox in used)


def _left(world: World, tasks: Sequence[Task]) -> bool:
    """Whether a record takes up buffers of a producer that has left."""
    here = {id(port) for task in tasks for port in task.ports}
    records = [record for task in tasks for record in _held(task)]
    records += [record for pool in world.pools.values() for record, _ in pool.queue]
    records += [event._value for *_, event in world.env._queue if isinstance(event._value, Record)]
    return any(each.channel is not None and id(each.channel.port) not in here for each in records)


def _held_back(port: Port) -> Iterable[tuple[Path, Record]]:
    """Records that could not leave a port. Those in batches do not count: to ask for their paths would open links."""
    return port.outbox if type(port) is GatheringPort else port.unsent()


def _is_mark(value: object) -> bool:
    """Whether a value is a control item, also one that nobody waits for any more."""
    return isinstance(value, Record) and not value.n


def _held(task: Task) -> list[Record]:
    """Records that have come to a task and have not left."""
    logic, found = task.logic, list(task.queue)
    if task.in_service:
        found.append(task.current[0])
    if isinstance(logic, CallLogic):
        found += [*logic.flying.values(), *([] if logic.stuck is None else [logic.stuck])]
    elif isinstance(logic, Chain):
        found += [*logic.planned, *(each for _, each in logic.entered)]
    return found if task.evaluating is None else [*found, *(each for _, each in task.evaluating.entered)]


def _under_way(task: Task) -> bool:
    barriers, logics = task.barriers, logics_of(task)
    if barriers is not None and (barriers.number >= 0 or barriers.aside or barriers.came):
        return True
    if any(map(_is_mark, task.queue)) or any(_is_mark(record) for port in task.ports for _, record in _held_back(port)):
        return True
    if any(logic not in logics for logic, _ in task.timers):
        return True
    return any(job[2] is task and job[3] != task.work_done for job in task.processor.jobs)
