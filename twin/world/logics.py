"""Operators of a subtask, one behind the other, as Python sees them: views of what compiled code does for each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from twin.kernel import layout as k
from twin.world.memory import RunMemory, StructView
from twin.world.parts import SinkCounts, chain

if TYPE_CHECKING:
    from twin.engine.keys.groups import KeyGroups
    from twin.world.parts import Task


class Logic(StructView, layout=k.LOGIC):
    """One operator of a subtask; it passes every record on.

    task: its subtask. number: its position there. bytes_in: size of a record that comes from the logic before. law: the
    balance of its records, in words; empty if there is none. keeps: whether it holds records.
    """

    code = k.PASS
    law = ""
    keeps = False

    def __init__(self, memory: RunMemory, task: Task, number: int, bytes_in: float) -> None:
        super().__init__(memory.add(k.LOGIC, kind=self.code, side=k.NONE, thins=k.NONE, selectivity=k.NONE))
        self.memory, self.task, self.number, self.bytes_in = memory, task, number, bytes_in
        memory.at[self.here] = self

    @property
    def fires(self) -> int:
        """Evaluations of its windows so far."""
        return 0

    @property
    def begun(self) -> int:
        """Sessions that have begun."""
        return 0

    @property
    def finished(self) -> int:
        """Sessions that have ended."""
        return 0

    def know_send(self, send_s: float) -> None:
        """Notes the CPU seconds that it takes to send a record on."""
        self.send_s = send_s

    # checkpoints -----------------------------------------------------------------------------------------------------

    def progress(self) -> Any:
        """What a checkpoint must know of it as it is complete."""
        return None

    def snapshot(self, again: bool) -> Any:
        """State from which it can go on. again: whether the record in service will be served again."""
        return self.progress()

    def restore(self, kept: Any, at_s: float) -> int:
        """Goes back to its state at `at_s`. Returns the number of records that its subtask will read again."""
        return 0

    def complete(self, kept: Any, now_s: float) -> None:
        """Notes that the checkpoint of this snapshot is complete: no failure goes back to an earlier one."""

    def stopped(self) -> None:
        """Forgets what was under way, as its subtask stops."""

    # what it holds, and what is counted ------------------------------------------------------------------------------

    def ended(self) -> int:
        """Number of records that went no further."""
        return int(self.dropped)

    def in_service(self) -> int:
        """Number of records in service that have still to leave or to end."""
        return self.task.in_service

    def away(self) -> int:
        """Number of records that wait for something outside of the job."""
        return 0

    def asking(self) -> list[int]:
        """Addresses of the records that it will serve again after a restart, in the order in which they came."""
        return []

    def held(self) -> float:
        """Number of records, or states, that it holds."""
        return 0.0

    def held_bytes(self) -> float:
        """Size of what it holds, in bytes."""
        return 0.0

    def held_keys(self) -> list[tuple[list[int], float]]:
        """Keys of what it holds, and the bytes of each, by window; keys of key groups only."""
        return []

    def sink(self) -> Any:
        """Counts of results, if it ends in a sink."""
        return None

    def tuple_bytes(self) -> float:
        """Mean size of the records that come to it, in bytes."""
        return self.bytes_in or self.task.tuple_bytes()


class ReadLogic(Logic):
    """Logic of a source."""

    code = k.READ
    law = "in = out + in service + stopped"

    def snapshot(self, again: bool) -> int:
        broker = self.task.polling.broker if self.task.polling is not None else None
        return 0 if broker is None else broker.read() - again

    def restore(self, kept: int, at_s: float) -> int:
        broker = self.task.polling.broker if self.task.polling is not None else None
        return 0 if broker is None else broker.read_again(kept)

    def complete(self, kept: int | None, now_s: float) -> None:
        broker = self.task.polling.broker if self.task.polling is not None else None
        if broker is not None and kept is not None:
            broker.forget(kept)


class SelectLogic(Logic):
    """Logic of a filter, map, or join with a table. side: number of the input whose records change the table."""

    code = k.SELECT

    def __init__(self, *where: Any, selectivity: float, thins: bool, side: int = k.NONE) -> None:
        super().__init__(*where)
        self.selectivity, self.thins, self.side = selectivity, thins, side
        self.law = "in = out + dropped + in service + stopped" if thins else ""

    def in_service(self) -> int:
        return int(self.results) if self.task.in_service else 0


class RememberLogic(SelectLogic):
    """Logic that keeps a state a key, with a time to live. bytes_each: size of a state."""

    code = k.REMEMBER

    def __init__(self, *where: Any, selectivity: float, store: Store, bytes_each: float) -> None:
        super().__init__(*where, selectivity=selectivity, thins=selectivity <= 1.0)
        self.raw_store, self.store, self.bytes_each = store.here, store, bytes_each

    store: Store

    def snapshot(self, again: bool) -> Any:
        return self.store.copy()

    def restore(self, kept: Any, at_s: float) -> int:
        self.store.become(kept)
        return 0

    def live(self) -> int:
        """Number of keys that have a state that has not expired."""
        self.store.expire()
        return int(self.store.count)

    def held(self) -> float:
        return float(self.store.count)

    def held_bytes(self) -> float:
        return self.live() * self.bytes_each


class SessionLogic(Logic):
    """Logic of session windows."""

    code = k.SESSION
    keeps = True
    store: Store

    def __init__(self, *where: Any, store: Store) -> None:
        super().__init__(*where)
        self.store, self.raw_store = store, store.here

    def stopped(self) -> None:
        """Loses all open sessions."""
        store = self.store
        self.memory.slots.set(store.slot, math.inf, 0)
        store.watching = 0
        store.begun -= store.count
        store.clear()

    def snapshot(self, again: bool) -> Any:
        return self.store.copy()

    def restore(self, kept: Any, at_s: float) -> int:
        """Goes back to the sessions of a checkpoint; those whose gap is over meanwhile end now."""
        self.stopped()
        store = self.store
        begun, finished = store.begun, store.finished
        store.become(kept)
        store.begun, store.finished, store.watching = begun + store.count, finished, store.count > 0
        if store.count:
            env, first = self.task.env, store.memo(store.first)
            self.memory.slots.set(store.slot, max(float(first["at_s"]), env.now), next(env._eid))
        return 0

    @property
    def begun(self) -> int:
        """Sessions that have begun."""
        return int(self.store.begun)

    @property
    def finished(self) -> int:
        """Sessions that have ended."""
        return int(self.store.finished)

    def in_service(self) -> int:
        return 0

    def held(self) -> float:
        return float(self.store.count)

    def held_bytes(self) -> float:
        return float(self.store.count * self.tuple_bytes())


class CollectLogic(Logic):
    """Logic of a sink."""

    code = k.COLLECT
    law = "in = counted + in service + stopped"

    def __init__(self, *where: Any, commits: bool) -> None:
        """commits: whether results count only when a checkpoint commits them."""
        super().__init__(*where)
        self.counts = SinkCounts(self.memory)
        self.counts.commits = commits
        self.undone = 0
        self.raw_sink = self.counts.here

    def sink(self) -> SinkCounts:
        return self.counts

    def progress(self) -> int:
        return int(self.counts.made)

    def restore(self, kept: int, at_s: float) -> int:
        """Drops the results that were not committed."""
        sink = self.counts
        self.undone += sink.held_results
        sink.held_results = sink.first_held = sink.last_held = 0
        return 0

    def complete(self, kept: int, now_s: float) -> None:
        """Counts the results that the checkpoint commits."""
        if self.counts.commits:
            self.memory.do(k.COMMIT, self.counts.here, subject=kept)

    def ended(self) -> int:
        return int(self.counts.counted + self.counts.held_results + self.undone)


class RouteLogic(Logic):
    """Logic of a router."""

    code = k.ROUTE
    law = "in = out + dropped + in service + stopped"

    def __init__(self, *where: Any, shares: Sequence[float], exclusive: bool) -> None:
        super().__init__(*where)
        self.thins = exclusive
        self.parts = self.memory.array(k.PART, self.here, "parts", len(shares))
        self.memory.blocks[self.here, "parts"]["share"] = shares

    def in_service(self) -> int:
        return int(self.results) if self.task.in_service else 0


class WindowLogic(Logic):
    """Logic of windows by processing time or count. window: their structure."""

    code = k.WINDOW_OF
    planned: Sequence[object] = ()
    keeps = True
    window: WindowState

    def in_service(self) -> int:
        return 0

    def stopped(self) -> None:
        """Drops the results under way."""
        self.window.found_count = 0

    def snapshot(self, again: bool) -> Any:
        """Results that have not left, contents, and the trigger's progress with the evaluations that are due."""
        window, blocks = self.window, self.memory.blocks
        found = blocks[window.here, "found"][: window.found_count].copy()
        contents = [each.copy(self.memory) for each in window.contents]
        due = [at_s for owner, at_s in self.task.errands_due() if owner == window.here]
        return found, contents, window.boundary_s if window.by_time else window.seen, due

    def restore(self, kept: Any, at_s: float) -> int:
        """Goes back to a checkpoint. Windows of the content that have ended meanwhile are due, too."""
        found, contents, progress, due = kept
        window, memory = self.window, self.memory
        room = max(k.LEAST_ROOM, 2 * len(found))
        window.found, window.found_room = memory.array(k.RESULT, window.here, "found", room), room
        memory.blocks[window.here, "found"][: len(found)] = found
        window.found_count = len(found)
        for content, rows in zip(window.contents, contents, strict=True):
            content.become(memory, rows)
        if not window.by_time:
            window.seen = progress
            return 0
        errands = [(owner, when_s) for owner, when_s in self.task.errands_due() if owner != window.here]
        errands += [(window.here, when_s) for when_s in due]
        while progress < min(window.boundary_s, at_s + window.length):
            errands.append((window.here, progress))
            progress += window.slide
        self.task.errands_become(errands)
        return 0

    @property
    def found(self) -> int:
        """Results that have not left."""
        return int(self.window.found_count)

    @property
    def fires(self) -> int:
        """Evaluations so far."""
        return int(self.window.fires)

    def held(self) -> float:
        return float(sum([each.count for each in self.window.contents]))

    def held_bytes(self) -> float:
        counts = [each.count for each in self.window.contents]
        return float(sum([count * size for count, size in zip(counts, self._sizes(), strict=True)]))

    def _sizes(self) -> list[float]:
        """Bytes of a record in each of the contents."""
        if len(self.window.contents) == 1:
            return [self.tuple_bytes()]
        by_side = {inbox.side: inbox.tuple_bytes for inbox in self.task.inboxes}
        return [by_side[side] for side in range(len(self.window.contents))]


class CallLogic(Logic):
    """Logic of calls to an external system. end: counts of results, if it is a sink."""

    code = k.CALL
    end: SinkCounts | None = None
    calling: FlyingCalls

    def know_send(self, send_s: float) -> None:
        self.send_s = self.calling.selectivity * send_s if self.end is None else 0.0

    def stopped(self) -> None:
        """Gives all calls up."""
        calling, slots = self.calling, self.memory.slots
        calling.flying = calling.stuck = calling.waits = 0
        calling.last_s = 0.0
        for slot in (calling.slot, calling.turn):
            slots.set(slot, math.inf, 0)

    def away(self) -> int:
        return int(self.calling.flying + (self.calling.stuck != 0))

    def asking(self) -> list[int]:
        heap = self.memory.blocks[self.calling.here, "heap"][: self.calling.flying]
        waiting = [here for _, here, _ in sorted(heap.tolist())]
        return [*waiting, self.calling.stuck] if self.calling.stuck else waiting

    def in_service(self) -> int:
        return self.task.in_service + self.away()

    def ended(self) -> int:
        return int(self.dropped if self.end is None else self.end.counted)

    def sink(self) -> SinkCounts | None:
        return self.end


class Content(StructView, layout=k.CONTENT):
    """Records of one side of a window."""

    def copy(self, memory: RunMemory) -> np.ndarray:
        """Copy of all records, the oldest first."""
        rows = memory.blocks[self.here, "rows"]
        return np.roll(rows, -self.first)[: self.count].copy() if self.first else rows[: self.count].copy()

    def become(self, memory: RunMemory, rows: np.ndarray) -> None:
        """Holds these records, and no others."""
        room = max(k.LEAST_ROOM, 2 * len(rows))
        self.rows, self.room = memory.array(k.ROW, self.here, "rows", room), room
        memory.blocks[self.here, "rows"][: len(rows)] = rows
        self.first, self.count = 0, len(rows)


class WindowState(StructView, layout=k.WINDOW):
    """Windows of a logic, and their contents, one a side."""

    contents: list[Content]


class FlyingCalls(StructView, layout=k.CALLING):
    """Calls of a subtask."""


class Gate(StructView, layout=k.GATE):
    """Rate limit of an external system."""


class Store(StructView, layout=k.STORE):
    """States by key."""

    def __init__(self, memory: RunMemory, expire: Any, **fields: float) -> None:
        super().__init__(memory.add(k.STORE, **fields))
        self.memory, self._expire = memory, expire
        memory.at[self.here] = self
        self.make_room(k.LEAST_ROOM)

    def make_room(self, room: int) -> None:
        """Makes room for so many keys, a power of two. Memos keep their places, but leave the hash chains."""
        blocks = self.memory.blocks
        before = blocks.get((self.here, "memos"))
        self.entries = self.memory.array(k.MEMO, self.here, "memos", room)
        if before is not None:
            blocks[self.here, "memos"][: len(before)] = before
        self.heads = self.memory.block(self.here, "heads", (), int, room)
        self.room = room

    def memo(self, number: int) -> Any:
        """State, by its number from 1 on."""
        return self.memory.blocks[self.here, "memos"][number - 1]

    def clear(self) -> None:
        """Drops all states."""
        self.used = self.free = self.count = self.first = self.last = 0
        self.memory.blocks[self.here, "heads"][:] = 0

    def copy(self) -> Any:
        """Copy of all states."""
        blocks, fields = self.memory.blocks, (self.used, self.free, self.count, self.first, self.last)
        return fields, blocks[self.here, "memos"].copy(), blocks[self.here, "heads"].copy()

    def become(self, kept: Any) -> None:
        """Holds the states of a copy, and no others."""
        (self.used, self.free, self.count, self.first, self.last), memos, heads = kept
        self.room = len(memos)
        self.entries = self.memory.array(k.MEMO, self.here, "memos", len(memos))
        self.heads = self.memory.block(self.here, "heads", heads.tolist(), int)
        self.memory.blocks[self.here, "memos"][:] = memos

    def expire(self) -> None:
        """Drops expired states, if they expire."""
        if self.slot == k.NONE:
            self._expire(self.here)


class Logics:
    """Operators of a subtask, in their order."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.steps: Sequence[Logic] = ()
        self.keeps = False

    def become(self, steps: Sequence[Logic]) -> None:
        """Takes these operators, of which the first gets the records that come."""
        self.steps, self.keeps, task = steps, any(each.keeps for each in steps), self.task
        for each, following in zip(steps, [*steps[1:], None], strict=True):
            each.next = 0 if following is None else following.here
        task.raw_logic, task.steps = steps[0].here, len(steps)
        if len(steps) > 1 and steps[-1].code == k.COLLECT:
            task.chain_end = steps[-1].here

    def know_send(self) -> None:
        """Notes the subtask's cost of sending a record; within a chain, sending costs nothing."""
        if len(self.steps) == 1:
            self.steps[0].know_send(self.task.send_s)

    def operators(self) -> int:
        """Number of operators."""
        return len(self.steps)

    def part(self, number: int) -> Logic:
        """Operator, by number."""
        return self.steps[number]

    def taken(self, number: int) -> int:
        """Number of records that came to an operator."""
        return int(self.steps[number].came if number else self.task.tuples_in)

    def sent(self, number: int) -> int:
        """Number of records that an operator passed on."""
        return int(self.steps[number + 1].came if number + 1 < len(self.steps) else self.task.tuples_out)

    def sink(self) -> Any:
        """Counts of results, if the last operator is a sink."""
        return self.steps[-1].sink()

    def held(self) -> float:
        """Number of records that all operators hold."""
        return sum([each.held() for each in self.steps])

    def held_bytes(self) -> float:
        """Size of what all operators hold, in bytes."""
        return sum([each.held_bytes() for each in self.steps])

    def held_keys(self) -> list[tuple[list[int], float]]:
        """Keys of what all operators hold; see `Logic.held_keys`."""
        return [keys for each in self.steps for keys in each.held_keys()]

    def complete(self, kept: Sequence[Any], now_s: float) -> None:
        """Tells all operators that a checkpoint is complete."""
        for logic, each in zip(self.steps, kept, strict=True):
            logic.complete(each, now_s)

    def in_service(self) -> int:
        """Number of records in service that have still to leave or to end."""
        if len(self.steps) == 1:
            return self.steps[0].in_service()
        return 0 if self.task.evaluating else sum(1 for _ in chain(self.task.planned))

    def away(self) -> int:
        """Number of records that wait for something outside of the job."""
        return sum([each.away() for each in self.steps])

    def know_keys(self, keys: KeyGroups, replica: int) -> None:
        """Notes a change of its key groups."""

    @property
    def begun(self) -> int:
        """Sessions that have begun."""
        return sum([each.begun for each in self.steps])

    @property
    def finished(self) -> int:
        """Sessions that have ended."""
        return sum([each.finished for each in self.steps])

    def balances(self, aborted: int) -> list[tuple[str, int, int]]:
        """Balances of records: the law in words, the number that came, and the number accounted for. aborted: records
        in service when the subtask stopped."""
        if len(self.steps) == 1:
            return self._alone(self.steps[0], aborted)
        found, last = [], len(self.steps) - 1
        for number, logic in enumerate(self.steps):
            out = self.sent(number) + logic.ended()
            if number == last:
                out += self.in_service() + aborted
            if logic.law and not (number == last and self.keeps):
                found.append((logic.law, self.taken(number), out))
        return found

    def _alone(self, logic: Logic, aborted: int) -> list[tuple[str, int, int]]:
        came, sent = int(self.task.tuples_in), int(self.task.tuples_out)
        if isinstance(logic, SessionLogic):
            held = int(logic.held())
            return [
                ("sessions begun = ended + open", logic.begun, logic.finished + held),
                ("sessions ended = results", logic.finished, sent),
            ]
        out = logic.ended() + logic.in_service() + aborted
        if isinstance(logic, CallLogic):
            open_now = logic.in_service() + aborted
            laws = [("in = answered + waiting + in service + stopped", came, logic.calling.answered + open_now)]
            if logic.calling.selectivity <= 1.0:
                laws.append(
                    ("in = out + ended + waiting + in service + stopped", came, sent + logic.ended() + open_now)
                )
            return laws
        return [(logic.law, came, sent + out)] if logic.law else []
