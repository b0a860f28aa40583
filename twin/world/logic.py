"""Operators of a subtask as views of what compiled code does: their base, without state, and with state by key."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from twin.machine import layout as k
from twin.machine.advance import chain as chain_all
from twin.operators.records import Every, Item, Leaves, State, parted
from twin.world.memory import RunMemory, StructView
from twin.world.parts import SinkCounts

if TYPE_CHECKING:
    from twin.operators.key_groups import KeyGroups
    from twin.operators.watermark import Watch
    from twin.world.parts import Task

# without state -------------------------------------------------------------------------------------------------------


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

    # changes of the plan ---------------------------------------------------------------------------------------------

    def take(self, share: float, leaves: Leaves | None = None) -> State:
        """Takes records out of what it holds: those that leave, or else a share of them, evenly over their length."""
        return State()

    def give(self, state: State) -> None:
        """Merges the state of another subtask into its own."""

    def stores(self) -> int:
        """Number of stores that it gives and takes."""
        return 0

    def know_share(self, share: float, values: list[int]) -> None:
        """Notes a change of its share of an operator without key groups. values: distinct keys, its own first."""

    def save(self) -> None:
        """Moves calls without an answer into its state, as the barrier of a savepoint passes."""

    def resume(self) -> None:
        """Goes on after a restart, with what it saved."""

    def know_keys(self, keys: KeyGroups, subtask: int) -> None:
        """Notes a change of the key groups that it owns."""

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

    # event time ------------------------------------------------------------------------------------------------------

    def follow(self, kind: str, value: float) -> bool:
        """Lets a mark wait until the records before it have left; returns whether it has to wait."""
        return False

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

    def changed_bytes(self, came: int) -> float:
        """Size of the part of what it holds that the last `came` records changed, in bytes."""
        held = self.held()
        return self.held_bytes() * min(1.0, came / held) if held > 0.0 else 0.0

    def held_keys(self) -> list[tuple[list[int], float]]:
        """Keys of what it holds, and the bytes of each, by window; keys of key groups only."""
        return []

    def sink(self) -> Any:
        """Counts of results, if it ends in a sink."""
        return None

    def watched(self) -> Watch | None:
        """What operators look at over event time; None if it is not over event time."""
        return None

    def record_bytes(self) -> float:
        """Mean size of the records that come to it, in bytes."""
        return self.bytes_in or self.task.record_bytes()


class ReadLogic(Logic):
    """Logic of a source."""

    code = k.READ
    law = "in = out + in service + stopped"

    def snapshot(self, again: bool) -> int:
        broker = self.task.polling.reads if self.task.polling is not None else None
        return 0 if broker is None else broker.read() - again

    def restore(self, kept: int, at_s: float) -> int:
        broker = self.task.polling.reads if self.task.polling is not None else None
        return 0 if broker is None else broker.read_again(kept)

    def complete(self, kept: int | None, now_s: float) -> None:
        broker = self.task.polling.reads if self.task.polling is not None else None
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


class CollectLogic(Logic):
    """Logic of a sink."""

    code = k.COLLECT
    law = "in = counted + in service + stopped"

    def __init__(self, *where: Any, commits: bool) -> None:
        """commits: whether results count only when a checkpoint commits them."""
        super().__init__(*where)
        self.counts = SinkCounts(self.memory)
        self.counts.commits = commits
        self.counts.spent = self.task.spent.here
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


# state by key --------------------------------------------------------------------------------------------------------
# Operators that keep state by key: keyed state, sessions, and the store in which it lies.


TRIES = 8
"""Number of keys that are drawn for a session of unknown key, before it gets a number that is no key's."""


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

    def items(self) -> list[Item]:
        """All states, in their order: each at its time."""
        found, number = list[Item](), int(self.first)
        memos = self.memory.blocks[self.here, "memos"]
        while number:
            key, _, number, _, at_s, born_s, taken_s, _ = memos[number - 1].tolist()
            found.append((at_s, key, born_s, taken_s))
        return found

    def hold(self, items: Mapping[int, Item]) -> None:
        """Holds these states, by key and in this order, and no others."""
        self.clear()
        while self.room <= len(items):
            self.make_room(2 * self.room)
        count = len(items)
        rows = [
            (key, 0, place + 1 if place < count else 0, place - 1, at_s, born_s, taken_s, taken_s)
            for place, (key, (at_s, _, born_s, taken_s)) in enumerate(items.items(), 1)
        ]
        self.memory.blocks[self.here, "memos"][:count] = rows
        self.used = self.count = self.last = count
        self.first = 1 if count else 0
        chain_all(0, self.here)

    def expire(self) -> None:
        """Drops expired states, if they expire."""
        if self.slot == k.NONE:
            self._expire(self.here)


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

    def held_keys(self) -> list[tuple[list[int], float]]:
        self.store.expire()
        return [([key for _, key, _, _ in self.store.items()], self.bytes_each)]

    def take(self, share: float, leaves: Leaves | None = None) -> State:
        """Takes states; expired ones stay behind."""
        self.store.expire()
        items = [(at_s, key, 0.0, 0.0) for at_s, key, _, _ in self.store.items()]
        gone, kept = parted(items, leaves or Every(share))
        self.store.hold({item[1]: item for item in kept})
        return State([gone], len(gone) * self.bytes_each)

    def give(self, state: State) -> None:
        seen = sorted([*self.store.items(), *state.stores[0]], key=itemgetter(0))
        self.store.hold({item[1]: item for item in seen})

    def stores(self) -> int:
        return 1


class SessionLogic(Logic):
    """Logic of session windows. keyed: whether subtasks share the keys, if records get their keys here. bytes_each:
    size of an open session; None: that of a record."""

    code = k.SESSION
    keeps = True
    store: Store

    def __init__(self, *where: Any, store: Store, keyed: bool, bytes_each: float | None = None) -> None:
        super().__init__(*where)
        self.store, self.raw_store, self.keyed, self.bytes_each = store, store.here, keyed, bytes_each

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
        self.store.become(kept)
        self._begin_anew()
        return 0

    def _begin_anew(self) -> None:
        """Counts the sessions in the store as begun, and watches for the end of the first."""
        store = self.store
        store.begun, store.watching = store.begun + store.count, store.count > 0
        if store.count:
            env, first = self.task.env, store.memo(store.first)
            self.memory.slots.set(store.slot, max(float(first["at_s"]), env.now), next(env._eid))

    def _hold(self, sessions: Mapping[int, Item]) -> None:
        """Replaces the open sessions by these."""
        self.stopped()
        self.store.hold(dict(sorted(sessions.items(), key=lambda each: each[1][0])))
        self._begin_anew()

    def take(self, share: float, leaves: Leaves | None = None) -> State:
        gone, kept = parted(self.store.items(), leaves or Every(share))
        self._hold({item[1]: item for item in kept})
        return State([gone], len(gone) * self._size())

    def give(self, state: State) -> None:
        sessions = {item[1]: item for item in self.store.items()}
        for ends_s, key, born_s, taken_s in state.stores[0]:
            mine = self._free_key(sessions) if self.store.drawn else key
            sessions[mine] = ends_s, mine, born_s, taken_s
        self._hold(sessions)

    def _free_key(self, sessions: Mapping[int, Item]) -> int:
        """Key for a session whose own is unknown: one without a session, if a few draws find one; else a negative
        one."""
        keys = self.store.keys
        for _ in range(TRIES):
            key = int(self.task.draws.uniform() * keys) if keys > 1 else 0
            if key not in sessions:
                return key
        return min(-1, *sessions) - 1

    def stores(self) -> int:
        return 1

    def know_share(self, share: float, values: list[int]) -> None:
        if self.keyed:
            self.store.keys = max(1, round(values[0] * share))

    def held_keys(self) -> list[tuple[list[int], float]]:
        return [([key for _, key, _, _ in self.store.items()], self._size())]

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
        return float(self.store.count * self._size())

    def _size(self) -> float:
        """Bytes of an open session."""
        return self.record_bytes() if self.bytes_each is None else self.bytes_each
