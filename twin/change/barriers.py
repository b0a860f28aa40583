"""Checkpoint barriers at one subtask, and the work that a checkpoint takes of it. After Flink.

Barriers travel in channels in order with records. Each waits for its turn in the queue, and records behind it wait
until the barriers of all inputs have come (aligned checkpoints).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from twin.change.kept import TaskKept, asked, keep
from twin.engine.station.barriers import CheckpointPart
from twin.kernel import layout as k
from twin.kernel.advance import wake_up, work_on
from twin.world.parts import Item, Path, Task

if TYPE_CHECKING:
    from twin.world.parts import Inbox
    from twin.world.world import World

Way = tuple[int, Task]
"""One input: side of the stream, and the subtask that sends."""


class Barriers:
    """Barriers of one subtask. passed: called when the subtask's part is known.

    number: the awaited checkpoint; -1 if none is. part: the subtask's part of it. ways: inputs from which barriers
    come. outs: by port, the replicas to which they go. came: inputs whose barrier has come. work_s: returns the CPU
    seconds that the checkpoint takes of the subtask. aside: records that wait for barriers.
    """

    def __init__(
        self,
        world: World,
        task: Task,
        work_s: Callable[[Barriers], float],
        passed: Callable[[Barriers], None],
    ) -> None:
        self.world, self.memory = world, world.memory
        self.station, self.work_s, self.passed = task, work_s, passed
        self.number = -1
        self.part = CheckpointPart()
        self.ways: set[Way] = set()
        self.outs: Sequence[Sequence[int]] = ()
        self.came: set[Way] = set()
        self.aside: list[int] = []
        self.held: dict[Task, int] = {}
        self.corked: list[Task] = []

    # a checkpoint --------------------------------------------------------------------------------------------------

    def expect(self, number: int, part: CheckpointPart, ways: set[Way], outs: Sequence[Sequence[int]]) -> None:
        """Prepares for the barriers of a checkpoint that begins. A subtask without inputs waits for `begin`."""
        self.number, self.part, self.ways, self.outs, self.came = number, part, ways, outs, set()

    def begin(self) -> None:
        """Begins a checkpoint at a subtask without inputs: between what it has sent and what it will send."""
        self.part.since_s = self.world.env.now
        self._keep()
        self._end()

    def abandon(self) -> None:
        """Gives the awaited checkpoint up."""
        self.number = -1
        self._let_go()
        if not self.station.busy:
            work_on(self.memory.state.here, self.station.here)

    def heed(self, item: Item, way: Way) -> None:
        """Takes an aligned barrier whose turn in the queue has come."""
        if item.key != self.number:
            return
        if not self.came:
            self.part.since_s = self.world.env.now
        self.came.add(way)
        self.station.aligning = True
        if len(self.came) == len(self.ways):
            self._keep()
            self._let_go()
            self._end()

    # aligned -------------------------------------------------------------------------------------------------------

    def put(self, item: Item, inbox: Inbox, way: Way) -> bool:
        """Puts a record aside if it must wait until the barriers of all other inputs have come; returns whether.

        Other senders get its room in the channel; its own is blocked when it has had its share.
        """
        if way not in self.came:
            return False
        state, sender, station = self.memory.state, way[1], self.station
        self.aside.append(item.here)
        self.part.put_aside += 1
        self.held[sender] = held = self.held.get(sender, 0) + 1
        senders = len([side for side, _ in self.ways if side == inbox.side])
        if held * senders >= inbox.capacity and sender not in self.corked:
            self.corked.append(sender)
            self.memory.do(k.BLOCK, sender.here)
        inbox.credits += 1
        if inbox.first_waiting:
            station.busy = True  # records that arrive now wait for their turn
            wake_up(state.here, inbox.here)
            station.busy = False
        return True

    def _let_go(self) -> None:
        """Queues the records that were put aside, in order, before those that are queued."""
        aside, self.aside, self.came, self.held = self.aside, [], set(), {}
        self.station.aligning = False
        if aside:
            lane = self.world.network.lanes.lane(self.station)
            for here in reversed(aside):
                item = Item(here)
                self.memory.at[Path(item.path).inbox].credits -= 1
                self.world.first -= 1
                item.step, item.at_s, item.order = lane.here, -1.0, self.world.first
                self.memory.do(k.PUT_BACK, here)
        corked, self.corked = self.corked, []
        for sender in corked:
            self.memory.do(k.UNBLOCK, sender.here)

    # the state -----------------------------------------------------------------------------------------------------

    def _keep(self) -> None:
        """Keeps the subtask's state as its part, and sends the barrier on."""
        station, part = self.station, self.part
        now: float = self.world.env.now
        part.reached_s = now
        part.snapshot = self._kept()  # type: ignore[assignment]
        part.flying_bytes = self._pending_bytes()
        at_s = max(now, station.free_s)
        for port, replicas in zip(station.ports, self.outs, strict=True):
            self.memory.do(k.FLUSH, port.here)
            for replica in replicas:
                item = self.world.item()
                item.mark = k.BARRIER
                item.key, item.born_s, item.taken_s, item.at_s = self.number, now, now, at_s
                item.path = self.world.path(port, replica)
                self.memory.do(k.SEND_MARK, item.here, subject=port.here)
        work_s = self.work_s(self)
        if work_s > 0.0:
            self.memory.do(k.OCCUPY, station.here, asked=work_s)

    def _kept(self) -> TaskKept:
        """State of the subtask; of queued records, which came after the barriers, only those that it asks for again.

        Where nothing ever goes back to it, only what it must be told when the checkpoint is complete.
        """
        station = self.station
        if self.world.replayable:
            found = keep(self.world, station)
            return found._replace(queue=asked(station)) if self.ways else found
        return TaskKept([], None, False, [], [], [step.progress() for step in station.logic.steps], 0.0)

    def _pending_bytes(self) -> float:
        """Size of the records whose calls have no answer yet: they are part of the state."""
        sizes = [self._bytes_of(here) for step in self.station.logic.steps for here in step.asking()]
        return sum(sizes)

    def _bytes_of(self, here: int) -> float:
        path = Item(here).path
        return float(self.memory.at[Path(path).inbox].tuple_bytes) if path else 0.0

    def _end(self) -> None:
        self.part.waited_s = self.world.env.now - self.part.since_s
        self.passed(self)
        self.number = -1
