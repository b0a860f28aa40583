"""Windows: their contents, the accumulators that count as their state, their evaluations and results."""

from __future__ import annotations

import math
from typing import Any

from twin.histograms import RESULT_TIME, WINDOW_TIME
from twin.machine import layout as k
from twin.machine.channels import send
from twin.machine.draws import chance, rounded, uniform
from twin.machine.items import goes_on, new_item, spend
from twin.machine.native import call, compiled
from twin.machine.stores import MIX, find, forget_oldest, memo_of, touch

# contents ------------------------------------------------------------------------------------------------------------
# Contents of windows: records with their keys, the oldest first.


ELSEWHERE = -1
"""Key of a record that matches nothing here, as its key belongs to another subtask."""


@compiled
def content_of(window: Any, side: int) -> Any:
    """Content of one side of a window."""
    return k.content_at(window.contents + k.CONTENT_BYTES * side)


@compiled
def row_of(content: Any, number: int) -> Any:
    """Record of a content by number, the oldest first."""
    place = content.first + number
    if place >= content.room:
        place -= content.room
    return k.row_at(content.rows + k.ROW_BYTES * place)


@compiled
def side_of(window: Any, item: Any) -> int:
    """Side of a window to which a record comes."""
    return k.inbox_at(k.path_at(item.path).inbox).side if window.sides > 1 else 0


@compiled
def put_record(s: Any, window: Any, item: Any, position: float) -> None:
    """Puts a record into a window, at `position`."""
    content = content_of(window, side_of(window, item))
    if content.count == content.room:
        call(s.call_python, k.ROWS, content.here)
    row = row_of(content, content.count)
    row.position, row.key, row.born_s, row.taken_s = position, item.key, item.born_s, item.taken_s
    content.count += 1


@compiled
def until(content: Any, position: float, low: int) -> int:
    """Number of records up to a position, which is known to be at least `low`."""
    high = content.count
    while low < high:
        middle = (low + high) >> 1
        if position < row_of(content, middle).position:
            high = middle
        else:
            low = middle + 1
    return low


@compiled
def drop_records(window: Any, position: float) -> None:
    """Drops records up to `position`, which no later window holds."""
    for side in range(window.sides):
        content = content_of(window, side)
        gone = until(content, position, 0)
        content.count -= gone
        content.first += gone
        if content.first >= content.room:
            content.first -= content.room


@compiled
def entry_of(table: Any, key: int, stamp: int) -> Any:
    """Entry of a key in a table, whose entries are valid for one stamp: the entry is new if it has another one."""
    mask = table.room - 1
    place = ((key ^ (key >> 15)) * MIX) & mask
    while True:
        entry = k.entry_at(table.entries + k.ENTRY_BYTES * place)
        if entry.stamp != stamp or entry.key == key:
            return entry
        place = (place + 1) & mask


@compiled
def clear(s: Any, window: Any, side: int, records: int) -> Any:
    """Table of a side, with room for the keys of `records` records, unless Python has stopped the run."""
    table = k.table_at(window.tables + k.TABLE_BYTES * side)
    while table.room < 2 * records and s.stopped == 0:
        call(s.call_python, k.ENTRIES, table.here)
    return table


@compiled
def draw_key(s: Any, window: Any, side: int, stream: int, kin: int, item: Any) -> int:
    """Draws the key of a record that came without one: one of the keys that are here, or elsewhere."""
    content = content_of(window, side)
    if content.keys <= 1 and content.here_share == 1.0:
        return 0
    at = chance(s, stream, kin, item)
    if content.here_share != 1.0:
        at = at / content.here_share
        if at >= 1.0:
            return ELSEWHERE
    key = int(at * content.scale)
    return key if key < content.keys else content.keys - 1


# accumulators --------------------------------------------------------------------------------------------------------
# Accumulators of windows: how many an engine holds that adds each record to them at once, instead of the record.
#
# Results are made of the records, as their ages must be exact, so a run knows each record. What counts as state is one
# accumulator for each key and open window, or for each key and slice where windows share their slices. Of a key, only
# the last window that its latest record is in matters: all open windows up to this one have an accumulator of it.


NEAR = 1e-9
"""Part of a window by which rounding may miss its end."""


@compiled
def slice_at(window: Any, position: float) -> int:
    """Number of the slice that a record at a position is in; slices are counted by their ends."""
    return math.ceil(position / window.slice - NEAR)


@compiled
def last_at(window: Any, position: float) -> int:
    """Number of the last window that a record at a position is in; windows are counted by their ends."""
    return math.ceil((position + window.length) / window.slide - NEAR) - 1


@compiled
def put_in(s: Any, window: Any, item: Any, position: float) -> None:
    """Puts a record into a window, at `position`, and counts the accumulators that it begins."""
    put_record(s, window, item, position)
    if window.states == 0:
        return
    store, key = k.store_at(window.states), item.key
    content = content_of(window, 0)
    row = row_of(content, content.count - 1)
    row.following = 0
    number = slice_at(window, position) if window.slice > 0.0 else last_at(window, position)
    place, before = find(store, key), 0
    if place != 0:
        memo = memo_of(store, place)
        memo.born_s = position
        before = int(memo.at_s)
        if before == number:
            return
    memo = touch(s, store, key)
    memo.at_s, memo.born_s = float(number), position
    row.following = 1  # it begins a slice of its key
    window.begun += 1
    window.lasts += number - before


@compiled
def forget(window: Any, position: float, number: int) -> None:
    """Drops records up to `position`, which no later window holds, once window `number` has been evaluated."""
    if window.states == 0:
        drop_records(window, position)
        return
    closed = number
    if window.slice > 0.0:
        closed = math.floor(position / window.slice + NEAR)
        content = content_of(window, 0)
        for each in range(until(content, position, 0)):
            window.begun -= row_of(content, each).following
    drop_records(window, position)
    window.closed = number
    store = k.store_at(window.states)
    while store.first != 0 and memo_of(store, store.first).at_s <= closed:
        window.lasts -= int(memo_of(store, store.first).at_s)
        forget_oldest(store)


# evaluations ---------------------------------------------------------------------------------------------------------


US_PER_S = 1e6


@compiled
def waited_s(window: Any, row: Any) -> float:
    """Seconds for which a record has waited in a window that is complete now: until its end, or by which the record
    that completes it was taken later."""
    return float(window.ready_s - row.position if window.by_time else window.last_s - row.taken_s)


@compiled
def add_result(s: Any, window: Any, key: int, born_s: float, taken_s: float, wait_s: float) -> int:
    """Adds a result; returns its position. wait_s: how long its oldest record waited."""
    if window.found_count == window.found_room:
        call(s.call_python, k.RESULTS, window.here)
    place = window.found_count
    result = k.result_at(window.found + k.RESULT_BYTES * place)
    result.key, result.born_s, result.taken_s = key, born_s, taken_s
    result.ready_s, result.wait_s = window.ready_s, wait_s
    window.found_count = place + 1
    return place


@compiled
def evaluate(s: Any, window: Any, position: float, stream: int) -> float:
    """Finds the results of the window that ends at `position`; returns the CPU seconds of this."""
    window.fires += 1
    window.ended_s = position if window.by_time else s.now
    if window.by_time:
        window.ready_s = position
    before, start, looked_at = window.found_count, position - window.length, 0
    for side in range(window.sides):
        content = content_of(window, side)
        low = until(content, start, 0)
        looked_at += until(content, position, low) - low
    if window.matches == 0:
        group(s, window, start, position)
    elif window.amplification >= 0.0:
        measure(s, window, start, position, stream)
    else:
        match(s, window, start, position, stream)
    sort_by_key(s, window, before)
    s.left -= looked_at + window.found_count - before
    return window.scan_s * looked_at + window.result_s * (window.found_count - before)


@compiled
def group(s: Any, window: Any, start: float, position: float) -> None:
    """Adds one result a key, each as old as its key's oldest record."""
    content = content_of(window, 0)
    low = until(content, start, 0)
    high = until(content, position, low)
    table = clear(s, window, 0, high - low)
    if s.stopped != 0:
        return
    window.stamp += 1
    stamp = window.stamp
    for number in range(low, high):
        row = row_of(content, number)
        entry = entry_of(table, row.key, stamp)
        if entry.stamp != stamp:
            entry.key, entry.stamp = row.key, stamp
            entry.head = add_result(s, window, row.key, row.born_s, row.taken_s, waited_s(window, row))
        else:
            result = k.result_at(window.found + k.RESULT_BYTES * entry.head)
            if row.born_s < result.born_s:
                result.born_s = row.born_s
            if row.taken_s < result.taken_s:
                result.taken_s, result.wait_s = row.taken_s, waited_s(window, row)


@compiled
def index(s: Any, window: Any, side: int, start: float, position: float) -> None:
    """Links a side's records of the window by their keys, in their order."""
    content = content_of(window, side)
    low = until(content, start, 0)
    high = until(content, position, low)
    table = clear(s, window, side, high - low)
    if s.stopped != 0:
        return
    for number in range(low, high):
        row = row_of(content, number)
        row.following = -1
        entry = entry_of(table, row.key, window.stamp)
        if entry.stamp != window.stamp:
            entry.key, entry.stamp, entry.head = row.key, window.stamp, number
        else:
            row_of(content, entry.tail).following = number
        entry.tail = number


@compiled
def match(s: Any, window: Any, start: float, position: float, stream: int) -> None:
    """Adds the matches, one record a side; those of a key in the order of the first side's records, then of the
    second's, and so on."""
    window.stamp += 1
    for side in range(1, window.sides):
        index(s, window, side, start, position)
    content = content_of(window, 0)
    low = until(content, start, 0)
    for number in range(low, until(content, position, low)):
        row = row_of(content, number)
        if row.key != ELSEWHERE:
            partners(s, window, 1, row, stream)


@compiled
def head_of(window: Any, side: int, key: int) -> int:
    """First record of a key on a side; -1 if there is none."""
    entry = entry_of(k.table_at(window.tables + k.TABLE_BYTES * side), key, window.stamp)
    return entry.head if entry.stamp == window.stamp else -1


@compiled
def partners(s: Any, window: Any, first: int, own: Any, stream: int) -> None:
    """Adds all combinations of a record of the first side with those of its key on the others, like an odometer."""
    for side in range(first, window.sides):
        head = head_of(window, side, own.key)
        if head < 0:
            return
        content_of(window, side).low_key = head
    last = window.sides - 1
    while goes_on(s, 1):
        oldest_born_s, oldest_taken_s, wait_s = own.born_s, own.taken_s, waited_s(window, own)
        for side in range(first, window.sides):
            content = content_of(window, side)
            row = row_of(content, content.low_key)
            if row.born_s < oldest_born_s:
                oldest_born_s = row.born_s
            if row.taken_s < oldest_taken_s:
                oldest_taken_s, wait_s = row.taken_s, waited_s(window, row)
        times = 1
        if window.repeats != 1.0:
            times = rounded(s, stream, window.repeats)
        for _ in range(times):
            if s.stopped == 0:
                add_result(s, window, own.key, oldest_born_s, oldest_taken_s, wait_s)
        side = last
        while side >= first:
            content = content_of(window, side)
            following = row_of(content, content.low_key).following
            if following >= 0:
                content.low_key = following
                break
            content.low_key = head_of(window, side, own.key)
            side -= 1
        if side < first:
            return


@compiled
def measure(s: Any, window: Any, start: float, position: float, stream: int) -> None:
    """Adds results in proportion to the new records, each of a random record of each side."""
    fresh = window.slide
    if window.by_time:
        fresh = 0.0
        for side in range(window.sides):
            content = content_of(window, side)
            low = until(content, position - window.slide, 0)
            fresh += until(content, position, low) - low
    for _ in range(rounded(s, stream, window.amplification * fresh)):
        if not goes_on(s, 1):
            return
        born_s, taken_s, wait_s = math.inf, math.inf, 0.0
        present = 0
        for side in range(window.sides):
            content = content_of(window, side)
            low = until(content, start, 0)
            count = until(content, position, low) - low
            if count > 0:
                present += 1
                row = row_of(content, low + int(uniform(s, stream) * count))
                born_s = row.born_s if row.born_s < born_s else born_s
                if row.taken_s < taken_s:
                    taken_s, wait_s = row.taken_s, waited_s(window, row)
        if present == 0:
            return
        add_result(s, window, ELSEWHERE, born_s, taken_s, wait_s)


@compiled
def sort_by_key(s: Any, window: Any, first: int) -> None:
    """Puts the results from number `first` on into the order of their keys; those of a key keep theirs.

    Runs of 1, 2, 4, ... results are merged, to and fro between their place and the room behind them.
    """
    count = window.found_count - first
    while window.found_room < window.found_count + count:
        call(s.call_python, k.RESULTS, window.here)
        if s.stopped != 0:
            return
    mine = window.found + k.RESULT_BYTES * first
    here, there, width = mine, mine + k.RESULT_BYTES * count, 1
    while width < count:
        for low in range(0, count, 2 * width):
            merge(here, there, low, min(low + width, count), min(low + 2 * width, count))
        here, there, width = there, here, 2 * width
    if here != mine:
        merge(here, mine, 0, count, count)


@compiled
def merge(here: int, there: int, low: int, middle: int, high: int) -> None:
    """Merges two runs of results by their keys: from `low`, and from `middle` on. Writes them elsewhere."""
    left, right = low, middle
    for place in range(low, high):
        if right == high or (left < middle and result_of(here, left).key <= result_of(here, right).key):
            each = result_of(here, left)
            left += 1
        else:
            each = result_of(here, right)
            right += 1
        made = result_of(there, place)
        made.key, made.born_s, made.taken_s = each.key, each.born_s, each.taken_s
        made.ready_s, made.wait_s = each.ready_s, each.wait_s


@compiled
def result_of(here: int, number: int) -> Any:
    """Result of an array, by number."""
    return k.result_at(here + k.RESULT_BYTES * number)


# when windows are evaluated ------------------------------------------------------------------------------------------


@compiled
def plan_window(s: Any, task: Any, logic: Any, item: Any) -> float:
    """Puts a record into a window that counts records; returns the CPU seconds of the evaluation that it completes."""
    window = k.window_at(logic.window)
    if window.keyed == 0:
        item.key = draw_key(s, window, side_of(window, item), task.stream, logic.kin, item)
    if window.by_time:
        return 0.0
    window.seen += 1
    put_in(s, window, item, float(window.seen))
    window.ready_s, window.last_s = item.ready_s, item.taken_s
    if window.seen % int(window.slide):
        return 0.0
    before = window.found_count
    work_s = evaluate(s, window, float(window.seen), task.stream)
    forget(window, float(window.seen) + window.slide - window.length, window.seen // int(window.slide))
    return work_s + (window.found_count - before) * logic.send_s


@compiled
def emit_window(s: Any, task: Any, logic: Any, item: Any) -> None:
    """Puts a served record into a window over time; sends the results of a window that counts records."""
    window = k.window_at(logic.window)
    if window.by_time:
        put_in(s, window, item, task.end_s)
    leave(s, task, window, task.end_s)


@compiled
def leave(s: Any, task: Any, window: Any, at_s: float) -> None:
    """Sends all results of a window, one after the other, at `at_s`."""
    results = window.found_count
    for number in range(results):
        if s.stopped != 0:
            break
        result = k.result_at(window.found + k.RESULT_BYTES * number)
        here = new_item(s)
        item = k.item_at(here)
        item.key, item.born_s, item.taken_s, item.path = result.key, result.born_s, result.taken_s, 0
        item.at_s, item.at_us, item.ready_s = at_s, last_us(window), result.ready_s
        spend(task.spent, WINDOW_TIME, result.wait_s)
        if window.by_time:
            spend(task.spent, RESULT_TIME, at_s - result.ready_s)
        send(s, task, here)
    window.found_count = 0


@compiled
def last_us(window: Any) -> int:
    """Event time of the results of a window: the last moment of it, as in Flink."""
    return int(window.ended_s * US_PER_S) - 1
