"""Checkpoint barriers at one subtask: alignment, overtaking, and the work that a checkpoint takes of it."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from twin.change.kept import Copy, TaskKept, asked, bytes_of, copy_at, keep, not_sent, on_path, take_out, told_only
from twin.histograms import BARRIER_TIME, CHANNEL_TIME
from twin.machine import layout as k
from twin.machine.advance import wake_up, work_on
from twin.world.memory import ItemCells
from twin.world.network import Buffer, Signal
from twin.world.parts import Item, RecordLane, Task, chain, link
from twin.world.ports import Path
from twin.world.python_logics import timed_logic

if TYPE_CHECKING:
    from twin.world.ports import Inbox
    from twin.world.world import World


# barriers ------------------------------------------------------------------------------------------------------------
# Checkpoint barriers at one subtask, and the work that a checkpoint takes of it. After Flink.
#
# A subtask takes a barrier between two records, as all of its work. Aligned barriers travel in channels in order with
# records and watermarks. Each waits for its turn in the queue, and what is behind it waits until the barriers of all
# inputs have come. Unaligned barriers overtake what is in channels and queues, which becomes part of the checkpoint,
# as does what comes until the barriers of all inputs have come. Barriers may begin aligned and overtake later.


HandOver = Callable[[Any], None]
"""Adds a partial result that is handed over to contents of windows: those of a subtask, or of a checkpoint."""
Way = tuple[int, Task]
"""One input: side of the stream, and the subtask that sends."""


class Waiting(NamedTuple):
    """What waits at a subtask: the address of a record or mark, and the input by which it came."""

    here: int
    way: Way


@dataclass(slots=True)
class CheckpointPart:
    """Part of one task in a checkpoint. held_bytes: its state. changed_bytes: state to upload. flying_bytes: records in
    flight to it.

    came: records that it had taken. counted: results. work_s: CPU seconds. since_s: when it took the first barrier.
    reached_s: when the state was kept. waited_s: from the first barrier to the last. put_aside: records that waited
    meanwhile. behind: copies of what came behind the first barrier, and before that of its input. unsent: copies of
    what had not left the task. uploads: number of uploads that are not there yet; the first one is of its state.
    """

    held_bytes: float = 0.0
    changed_bytes: float = 0.0
    flying_bytes: float = 0.0
    came: int = 0
    counted: int = 0
    work_s: float = 0.0
    since_s: float = 0.0
    reached_s: float = 0.0
    waited_s: float = 0.0
    put_aside: int = 0
    snapshot: TaskKept | None = None
    behind: list[Copy] = field(default_factory=list)
    unsent: list[Copy] = field(default_factory=list)
    uploads: int = 1

    @property
    def uploaded_bytes(self) -> float:
        """Bytes to upload: the state that changed, and records in flight."""
        return self.changed_bytes + self.flying_bytes

    @property
    def fetched_bytes(self) -> float:
        """Bytes to fetch in order to go back to the checkpoint."""
        return self.held_bytes + self.flying_bytes


@dataclass(slots=True)
class Awaited:
    """Checkpoint that a subtask awaits. part: the subtask's part of it. ways: inputs from which barriers come. outs: by
    port, the subtasks to which they go. overtakes: whether barriers are unaligned.

    came: inputs whose barrier has come. begun: whether a subtask without inputs may begin. kept: whether its state is
    kept. before: of inputs whose barrier waits for the end of other work, the number of records and marks that it
    overtook.
    """

    number: int
    part: CheckpointPart
    ways: set[Way]
    outs: Sequence[Sequence[int]]
    overtakes: bool
    came: set[Way] = field(default_factory=set)
    begun: bool = False
    kept: bool = False
    before: Counter[Way] = field(default_factory=Counter)

    @property
    def all_came(self) -> bool:
        """Whether the barriers of all inputs have come."""
        return len(self.came) == len(self.ways)


class Barriers:
    """Barriers of one subtask. passed: called when the subtask's part is known, with the number of the checkpoint.

    awaited: checkpoints whose barriers have not all come, the first one first; it takes one after the other. work_s:
    returns the CPU seconds that a checkpoint takes of the subtask. aside: records and marks that wait for barriers.
    seen: number of waiting records of each input that have been looked at since the state was kept. number: of the last
    checkpoint that keeps its state. ahead: what its component has handed over behind the barrier of a checkpoint.
    """

    def __init__(
        self,
        world: World,
        task: Task,
        work_s: Callable[[Task, CheckpointPart], float],
        passed: Callable[[Task, int], None],
    ) -> None:
        self.world, self.memory = world, world.memory
        self.station, self.work_s, self.passed = task, work_s, passed
        self.awaited: deque[Awaited] = deque()
        self.aside: list[int] = []
        self.aside_s: list[float] = []  # since when
        self.held: dict[Task, int] = {}
        self.corked: list[Task] = []
        self.seen: Counter[Way] = Counter()
        self.number = 0
        self.ahead: deque[tuple[int, HandOver]] = deque()

    @property
    def waiting(self) -> int:
        """Number of records that were put aside."""
        return sum([not Item(here).mark for here in self.aside])

    # a checkpoint --------------------------------------------------------------------------------------------------

    def expect(self, awaited: Awaited) -> None:
        """Prepares for the barriers of a checkpoint that begins. A subtask without inputs waits for `begin`."""
        self.awaited.append(awaited)

    def begin(self) -> None:
        """Begins the last of the checkpoints at a subtask without inputs: between what it has sent and will send."""
        self.awaited[-1].begun = True
        self.soon()

    def abandon(self, number: int) -> None:
        """Gives an awaited checkpoint up."""
        if number not in [each.number for each in self.awaited]:
            return
        first = self.awaited[0].number == number
        self.awaited = deque(each for each in self.awaited if each.number != number)
        self._take_in()
        if first:
            self.station.barrier = 0
            self._let_go()
            if not self.station.busy:
                work_on(self.memory.state.here, self.station.here)

    def heed(self, item: Item, way: Way) -> None:
        """Takes an aligned barrier whose turn in the queue has come."""
        awaited = self.awaited[0] if self.awaited else None
        if awaited is None or item.key not in [each.number for each in self.awaited]:
            return
        if item.key != awaited.number:  # of the next checkpoint, on an input that waits for others
            self._put(self._copy(item), self.memory.at[Path(item.path).inbox], way)
            return
        if not awaited.came:
            awaited.part.since_s = self.world.env.now
        awaited.came.add(way)
        self.station.aligning = True
        if awaited.all_came:
            self._keep(awaited, [])
            self._let_go()
            self._end(awaited)

    def _copy(self, item: Item) -> Item:
        """Copy of a mark, which compiled code is about to drop."""
        made = self.world.item()
        made.mark, made.key, made.path, made.sender = item.mark, item.key, item.path, item.sender
        made.born_s, made.taken_s, made.at_s = item.born_s, item.taken_s, item.at_s
        return made

    def soon(self) -> None:
        """Takes what waits for the end of the work under way, now if there is none."""
        self.between()
        if not self.station.busy:
            work_on(self.memory.state.here, self.station.here)

    def between(self) -> None:
        """Takes barriers that have come, between two records."""
        while self.awaited:
            awaited = self.awaited[0]
            if self.station.busy:
                self.station.barrier = 1
                return
            if awaited.begun:
                awaited.part.since_s = self.world.env.now
                self._keep(awaited, [])
            elif not (awaited.overtakes and awaited.came):
                return
            elif not awaited.kept:
                awaited.part.since_s = self.world.env.now
                queue = self.queue()
                self.seen = Counter([each.way for each in queue])
                self.station.aligning = True  # from now on, compiled code shows what it takes
                self._keep(awaited, self._overtaken(awaited, queue))
            if not awaited.all_came:
                return
            self.station.aligning = False
            self._end(awaited)

    # aligned -------------------------------------------------------------------------------------------------------

    def meet(self, item: Item, inbox: Inbox, way: Way) -> bool:
        """Looks at a record or mark whose turn in the queue has come while barriers are awaited; returns whether it
        must wait until the barriers of all inputs have come."""
        awaited = self.awaited[0]
        if awaited.overtakes:
            if self.seen[way]:
                self.seen[way] -= 1
            else:
                self._arrived(awaited, item.here, way)
            return False
        if way not in awaited.came:
            return False
        self._put(item, inbox, way)
        return True

    def _put(self, item: Item, inbox: Inbox, way: Way) -> None:
        """Puts a record or mark aside. Other senders get a record's room in the channel; its own is blocked when it has
        had its share."""
        state, sender, station, awaited = self.memory.state, way[1], self.station, self.awaited[0]
        self.aside.append(item.here)
        self.aside_s.append(self.world.env.now)
        if item.mark:
            return
        self._note_way(item)
        awaited.part.put_aside += 1
        self.held[sender] = held = self.held.get(sender, 0) + 1
        senders = len([side for side, _ in awaited.ways if side == inbox.side])
        if held * senders >= inbox.capacity and sender not in self.corked:
            self.corked.append(sender)
            self.memory.do(k.BLOCK, sender.here)
        inbox.credits += 1
        if inbox.first_waiting:
            station.busy = True  # records that arrive now wait for their turn
            wake_up(state.here, inbox.here)
            station.busy = False

    def _note_way(self, item: Item) -> None:
        """Notes how long a record was on its way here, as its arrival is lost where it is queued again."""
        if item.at_s >= 0.0:
            self.station.spent.note(CHANNEL_TIME, item.at_s - item.taken_s - item.left_s)
            item.came_s = item.at_s

    def _let_go(self) -> None:
        """Queues what was put aside, in order, before what is queued."""
        self._put_back()
        corked, self.corked = self.corked, []
        for sender in corked:
            self.memory.do(k.UNBLOCK, sender.here)

    def _put_back(self) -> None:
        aside, self.aside, self.held = self.aside, [], {}
        now, since_s, self.aside_s = self.world.env.now, self.aside_s, []
        self.station.aligning = False
        if aside:
            lane = self.world.network.lanes.lane(self.station)
            for here, put_s in zip(reversed(aside), reversed(since_s), strict=True):
                item = Item(here)
                if not item.mark:
                    self.station.spent.note(BARRIER_TIME, now - put_s)
                    item.came_s += now - put_s
                self.memory.at[Path(item.path).inbox].credits -= not item.mark
                self.world.first -= 1
                item.step, item.at_s, item.order = lane.here, -1.0, self.world.first
                self.memory.do(k.PUT_BACK, here)

    # unaligned -----------------------------------------------------------------------------------------------------

    def overtook(self, number: int, way: Way) -> None:
        """Takes an unaligned barrier that arrives, as soon as the record in service is done."""
        if not self.awaited or number != self.awaited[0].number:
            return
        awaited = self.awaited[0]
        if awaited.kept:
            self._look(awaited)
        elif self.station.busy:
            awaited.before[way] = len([each for each in self.queue() if each.way == way])
        awaited.came.add(way)
        self.soon()

    def stop_aligning(self) -> list[Task]:
        """Queues what was put aside, as barriers overtake from now on. Returns the senders that may go on then."""
        self.awaited[0].before.update(dict.fromkeys(self.awaited[0].came, 0))
        self._put_back()
        corked, self.corked = self.corked, []
        return corked

    def came_behind(self, way: Way, before: int) -> None:
        """Notes a barrier that has overtaken so many waiting records and marks of its input."""
        self.awaited[0].before[way] = before
        self.awaited[0].came.add(way)

    def _overtaken(self, awaited: Awaited, queue: Iterable[Waiting]) -> list[Copy]:
        """Copies of what waits, without what came behind a barrier."""
        left, found = awaited.before.copy(), []
        for here, way in queue:
            if left.get(way, 1) > 0:
                found.append(copy_at(here))
            if way in left:
                left[way] -= 1
        return found

    def _look(self, awaited: Awaited) -> None:
        """Looks at the waiting records that have come since it looked last. Those of one input wait in the order in
        which they came, so that the first ones have been seen."""
        left = self.seen
        self.seen = Counter()
        for here, way in self.queue():
            self.seen[way] += 1
            if left[way]:
                left[way] -= 1
            else:
                self._arrived(awaited, here, way)

    def _arrived(self, awaited: Awaited, here: int, way: Way) -> None:
        """Notes what came behind the first barrier, but before that of its own input."""
        if way not in awaited.came:
            _add(awaited.part.behind, [copy_at(here)])

    def queue(self, until: int = 0) -> list[Waiting]:
        """What waits, in the order in which it came, but barriers and marks that the subtask gave itself. until: the
        address of a barrier, if only what came before it is asked for."""
        now, found = (self.world.env.now, self.memory.state.event_sequence), []
        for lane in chain(self.station.lane, k.NEXT_LANE):
            for here in chain(RecordLane(lane).head):
                item = ItemCells.from_address(here)
                at = item.at_s, item.order
                if at > now:
                    break
                if item.path and (item.mark != k.BARRIER or here == until):
                    found.append((at, here, item.path, item.sender))
        found.sort(key=itemgetter(0))
        if until:
            found = found[: [here for _, here, _, _ in found].index(until)]
        ways: dict[tuple[int, int], Any] = {}
        for _, _, path, sender in found:
            if (path, sender) not in ways:  # the sender is not known of what a checkpoint put back
                ways[path, sender] = self.memory.at[Path(path).inbox].side, self.memory.at.get(sender)
        return [Waiting(here, ways[path, sender]) for _, here, path, sender in found]

    # components ----------------------------------------------------------------------------------------------------

    def handed_over(self, sender: Task, add: HandOver) -> None:
        """Takes what the other subtask of its component hands over, past all channels. What that hands over behind a
        barrier waits for the barrier here; what it hands over before a barrier that was taken here is in flight."""
        logic, there = timed_logic(self.station), 0 if sender.barriers is None else sender.barriers.number
        assert logic is not None
        self.ahead.append((there, add))
        self._take_in()
        first = self.awaited[0] if self.awaited else None
        if first is not None and first.kept and first.number > there and self.world.goes_back:
            assert first.part.snapshot is not None
            add(first.part.snapshot.steps[0].spans)

    def _take_in(self) -> None:
        """Takes in what was handed over, but behind a barrier that has not come."""
        logic = timed_logic(self.station)
        while self.ahead and not any(not each.kept and each.number <= self.ahead[0][0] for each in self.awaited):
            assert logic is not None
            self.ahead.popleft()[1](logic.spans)

    # the state -----------------------------------------------------------------------------------------------------

    def _keep(self, awaited: Awaited, queue: Sequence[Copy]) -> None:
        """Keeps the subtask's state as its part, with copies of what waits and was overtaken, and sends the barrier
        on."""
        station, part, do = self.station, awaited.part, self.memory.do
        now: float = self.world.env.now
        awaited.kept, part.reached_s, self.number = True, now, awaited.number
        station.busy = True  # what is sent may bring it records, which wait
        for port in station.ports:
            do(k.FLUSH, port.here)
        station.busy = False
        kept = keep(station) if self.world.goes_back else told_only(station)
        part.snapshot = kept._replace(queue=[*asked(station), *queue])
        self._take_in()
        if awaited.overtakes:
            _add(part.unsent, not_sent(station))
        at_s = max(now, station.free_s)
        station.busy = True
        for port, subtasks in zip(station.ports, awaited.outs, strict=True):
            for subtask in subtasks:
                if awaited.overtakes:
                    send(self.world, awaited.number, station, port.path(subtask), at_s)
                    continue
                item = self.world.item()
                item.mark = k.BARRIER
                item.key, item.born_s, item.taken_s, item.at_s = awaited.number, now, now, at_s
                item.path = port.path(subtask)
                do(k.SEND_MARK, item.here, subject=port.here)
        station.busy = False
        work_s = self.work_s(station, part)
        if work_s > 0.0:
            do(k.OCCUPY, station.here, asked=work_s)

    def _end(self, awaited: Awaited) -> None:
        part = awaited.part
        part.waited_s = self.world.env.now - part.since_s
        assert part.snapshot is not None
        part.flying_bytes = bytes_of(self.world, [*part.behind, *part.unsent, *part.snapshot.queue])
        self.awaited.popleft()
        self.passed(self.station, awaited.number)


def _add(flying: Any, more: Sequence[Copy]) -> None:
    flying += more


def send(world: World, number: int, sender: Task, path: int, at_s: float) -> None:
    """Sends an unaligned barrier on a path."""
    inbox = world.memory.at[Path(path).inbox]
    Signal(world, path, arrived(inbox, number, (inbox.side, sender))).send(at_s)


def arrived(inbox: Inbox, number: int, way: Way) -> Callable[[], None]:
    """What happens as an unaligned barrier arrives."""
    return partial(_overtake, inbox, number, way)


def _overtake(inbox: Inbox, number: int, way: Way) -> None:
    """Shows an unaligned barrier to the subtask at which it arrives."""
    task: Any = inbox.task
    while isinstance(task, Buffer):  # of a plan that changes, which has ended the checkpoint
        task = task.target
    if task is not None:
        task.barriers.overtook(number, way)


# overtaking ----------------------------------------------------------------------------------------------------------
# Aligned barriers that overtake from a moment on, as a checkpoint has taken too long (Flink's aligned-checkpoint
# timeout). They leave the queues in which they wait: at subtasks, before channels, and on the network.


class Behind(NamedTuple):
    """Barrier that waits at a subtask, behind so many records and marks of its input."""

    gate: Barriers
    way: Way
    before: int


def let_overtake(world: World, number: int, tasks: Sequence[Task]) -> dict[Task, list[Copy]]:
    """Lets the barriers of a checkpoint overtake from now on. Returns copies of what was overtaken at subtasks that had
    passed their barriers on already."""
    gates: list[Barriers] = [task.barriers for task in tasks]
    waiting = [gate for gate in gates if gate.awaited and gate.awaited[0].number == number]
    for gate in waiting:
        gate.awaited[0].overtakes = True
    idle = [gate for gate in waiting if not gate.station.busy]
    for gate in idle:
        gate.station.busy = True  # nothing begins before all of them have kept their state
    came = _in_queues(world, number)
    overtaken = {task: found for task in tasks if (found := _at_ports(world, number, task))}
    corked = [sender for gate in waiting for sender in gate.stop_aligning()]
    for gate, way, before in came:
        gate.came_behind(way, before)
    for gate in idle:
        gate.station.busy = False
        gate.soon()
    for gate in waiting:
        if gate not in idle:
            gate.soon()
    for sender in corked:
        world.memory.do(k.UNBLOCK, sender.here)
    return overtaken


def _in_queues(world: World, number: int) -> list[Behind]:
    """Takes the barriers of a checkpoint out of all queues of subtasks, and returns them. Those on the network arrive
    when they would have, before all that waits there."""
    now, found = (world.env.now, world.memory.state.event_sequence), list[Behind]()
    for lane in list(world.network.lanes.every()):
        barriers = [item for here in chain(lane.head) if _is_barrier(item := Item(here), number)]
        for item in barriers:
            path = Path(world.network.final(item.path))
            inbox = world.memory.at[path.inbox]
            way = inbox.side, world.memory.at[item.sender]
            if lane.card and (item.at_s, item.order) > now:
                Signal(world, path.here, arrived(inbox, number, way)).replace(item, lane)
            else:
                gate: Barriers = inbox.task.barriers
                ahead = [each for each in gate.queue(item.here) if each.way == way]
                found.append(Behind(gate, way, len(ahead)))
        for item in barriers:
            take_out(lane, item)
        if barriers:
            world.network.lanes.line_up(lane)
    return found


def _at_ports(world: World, number: int, task: Task) -> list[Copy]:
    """Sends the barriers of a checkpoint that wait for room at a subtask, past all that waits before them, of which it
    returns copies."""
    overtaken, passing = list[Copy](), list[int]()
    for port in task.ports:
        before: defaultdict[int, list[Item]] = defaultdict(list)
        for path, item in port.unsent():
            if _is_barrier(item, number):
                overtaken += on_path(before[path], path)
                passing.append(path)
            elif item.mark != k.BARRIER:
                before[path].append(item)
        if port.held:
            port.first_held, port.last_held, port.held = _without(number, port.first_held)
        for channel in port.channels.values():
            if channel.unsent:
                channel.first_unsent, channel.last_unsent, channel.unsent = _without(number, channel.first_unsent)
    for path in passing:
        send(world, number, task, path, world.env.now)
    return overtaken


def _without(number: int, first: int) -> tuple[int, int, int]:
    """Links a list again without the barriers of a checkpoint; returns its two ends and its length."""
    left = [item for here in chain(first) if not _is_barrier(item := Item(here), number)]
    return *link(left), len(left)


def _is_barrier(item: Item, number: int) -> bool:
    return bool(item.mark == k.BARRIER and item.key == number)
