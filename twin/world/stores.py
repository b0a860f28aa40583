"""Operators that keep state by key: keyed state, sessions, and the store in which it lies."""

from __future__ import annotations

import math
from collections.abc import Mapping
from operator import itemgetter
from typing import Any

from twin.machine import layout as k
from twin.machine.advance import chain as chain_all
from twin.operators.state import Every, Item, Leaves, State, parted
from twin.world.logic import Logic, SelectLogic
from twin.world.memory import RunMemory, StructView

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
