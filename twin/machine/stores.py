"""Stores of states by key, in the order in which keys were last seen: keyed state with a time to live, and open
sessions."""

from __future__ import annotations

from typing import Any

from twin.histograms import RESULT_TIME, WINDOW_TIME
from twin.machine import layout as k
from twin.machine.calendar import cancel, ring_at
from twin.machine.channels import send
from twin.machine.draws import chance
from twin.machine.items import new_item, spend
from twin.machine.native import call, compiled, whole_at

MIX = 2654435761
"""Knuth's multiplicative hash."""
SOON = 1e-9
"""Seconds by which rounding may miss the end of a session."""


@compiled
def memo_of(store: Any, number: int) -> Any:
    """Memo of a number, from 1 on."""
    return k.memo_at(store.entries + k.MEMO_BYTES * (number - 1))


@compiled
def head_of_chain(store: Any, key: int) -> Any:
    """Head of the hash chain in which a key's memo is, if it has one."""
    return whole_at(store.heads + 8 * (((key ^ (key >> 15)) * MIX) & (store.room - 1)))


@compiled
def find(store: Any, key: int) -> int:
    """Number of a key's memo; 0 if it has none."""
    number = head_of_chain(store, key).value
    while number != 0 and memo_of(store, number).key != key:
        number = memo_of(store, number).chain
    return number


@compiled
def touch(s: Any, store: Any, key: int) -> Any:
    """Makes a key's memo the youngest, or adds it; returns it."""
    number = find(store, key)
    if number == 0:
        number = added(s, store, key)
    elif number == store.last:
        return memo_of(store, number)
    else:
        memo = memo_of(store, number)
        if memo.before == 0:
            store.first = memo.after
        else:
            memo_of(store, memo.before).after = memo.after
        memo_of(store, memo.after).before = memo.before
    memo = memo_of(store, number)
    memo.before, memo.after = store.last, 0
    if store.last == 0:
        store.first = number
    else:
        memo_of(store, store.last).after = number
    store.last = number
    return memo


@compiled
def added(s: Any, store: Any, key: int) -> int:
    """Adds a memo for a key; returns its number."""
    if store.count == store.room:
        call(s.call_python, k.MEMOS, store.here)
        if s.stopped != 0:
            forget_oldest(store)
    number = store.free
    if number != 0:
        store.free = memo_of(store, number).chain
    else:
        number = store.used + 1
        store.used = number
    store.count += 1
    memo_of(store, number).key = key
    chain_up(store, number)
    return number


@compiled
def chain_up(store: Any, number: int) -> None:
    """Adds a memo to the hash chain of its key."""
    memo = memo_of(store, number)
    head = head_of_chain(store, memo.key)
    memo.chain = head.value
    head.value = number


@compiled
def forget_oldest(store: Any) -> None:
    """Drops the oldest memo."""
    number = store.first
    memo = memo_of(store, number)
    store.first = memo.after
    if memo.after == 0:
        store.last = 0
    else:
        memo_of(store, memo.after).before = 0
    at = head_of_chain(store, memo.key)
    if at.value == number:
        at.value = memo.chain
    else:
        other = memo_of(store, at.value)
        while other.chain != number:
            other = memo_of(store, other.chain)
        other.chain = memo.chain
    memo.chain = store.free
    store.free = number
    store.count -= 1


def chain_all(_: int, here: int) -> int:
    """Adds all memos to the hash chains of their keys."""
    store = k.store_at(here)
    for number in range(1, store.used + 1):
        chain_up(store, number)
    return 0


# keyed state ---------------------------------------------------------------------------------------------------------


@compiled
def remember(s: Any, store: Any, key: int, at_s: float) -> None:
    """Creates or renews the state of a key."""
    touch(s, store, key).at_s = at_s
    expire(s, store)


@compiled
def expire(s: Any, store: Any) -> None:
    """Drops the states of keys whose time to live is over."""
    since_s = s.now - store.keep_s
    while store.first != 0 and memo_of(store, store.first).at_s <= since_s:
        forget_oldest(store)


def expire_now(state: int, here: int) -> int:
    """Drops expired states, before they are counted."""
    expire(k.state_at(state), k.store_at(here))
    return 0


# sessions ------------------------------------------------------------------------------------------------------------


@compiled
def plan_session(s: Any, task: Any, logic: Any, item: Any) -> float:
    """Gives a record without a key one. Returns the CPU seconds of a session's result, if the record begins one."""
    store = k.store_at(logic.store)
    if store.drawn:
        item.key = int(chance(s, task.stream, logic.kin, item) * store.keys) if store.keys > 1 else 0
    return 0.0 if find(store, item.key) != 0 else logic.send_s


@compiled
def join_session(s: Any, store: Any, item: Any) -> None:
    """Adds a record to its key's session, which now lasts for another gap."""
    begins = find(store, item.key) == 0
    memo = touch(s, store, item.key)
    memo.at_s = s.now + store.keep_s
    if begins:
        store.begun += 1
        memo.born_s, memo.taken_s, memo.came_s = item.born_s, item.taken_s, s.now
    else:
        memo.born_s, memo.taken_s = min(memo.born_s, item.born_s), min(memo.taken_s, item.taken_s)
    if store.watching == 0:
        watch(s, store)


@compiled
def watch(s: Any, store: Any) -> None:
    """Sets the event of the first session's end."""
    store.watching = 1 if store.first != 0 else 0
    if store.first != 0:
        ring_at(s, store.slot, memo_of(store, store.first).at_s)


@compiled
def end_sessions(s: Any, store: Any, task: Any) -> None:
    """Sends the results of sessions whose gap is over."""
    cancel(s, store.slot)
    while store.first != 0 and s.stopped == 0:
        memo = memo_of(store, store.first)
        if memo.at_s > s.now + SOON:
            break
        here = new_item(s)
        item = k.item_at(here)
        item.key, item.born_s, item.taken_s, item.path, item.at_s = memo.key, memo.born_s, memo.taken_s, 0, s.now
        item.at_us = int(memo.at_s * 1e6) - 1  # the last moment of the session
        item.ready_s = memo.at_s
        spend(task.spent, WINDOW_TIME, memo.at_s - memo.came_s)
        spend(task.spent, RESULT_TIME, s.now - memo.at_s)
        forget_oldest(store)
        store.finished += 1
        send(s, task, here)
    watch(s, store)
