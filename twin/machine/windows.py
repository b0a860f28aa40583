"""Windows: their evaluations and results."""

from __future__ import annotations

import math
from typing import Any

from twin.machine import accumulators, contents
from twin.machine import layout as k
from twin.machine.channels import send
from twin.machine.draws import rounded, uniform
from twin.machine.items import goes_on, new_item, spend
from twin.machine.native import call, compiled
from twin.spending import RESULT_TIME, WINDOW_TIME

US_PER_S = 1e6

# evaluations ---------------------------------------------------------------------------------------------------------


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
        content = contents.content_of(window, side)
        low = contents.until(content, start, 0)
        looked_at += contents.until(content, position, low) - low
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
    content = contents.content_of(window, 0)
    low = contents.until(content, start, 0)
    high = contents.until(content, position, low)
    table = contents.clear(s, window, 0, high - low)
    if s.stopped != 0:
        return
    window.stamp += 1
    stamp = window.stamp
    for number in range(low, high):
        row = contents.row_of(content, number)
        entry = contents.entry_of(table, row.key, stamp)
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
    content = contents.content_of(window, side)
    low = contents.until(content, start, 0)
    high = contents.until(content, position, low)
    table = contents.clear(s, window, side, high - low)
    if s.stopped != 0:
        return
    for number in range(low, high):
        row = contents.row_of(content, number)
        row.following = -1
        entry = contents.entry_of(table, row.key, window.stamp)
        if entry.stamp != window.stamp:
            entry.key, entry.stamp, entry.head = row.key, window.stamp, number
        else:
            contents.row_of(content, entry.tail).following = number
        entry.tail = number


@compiled
def match(s: Any, window: Any, start: float, position: float, stream: int) -> None:
    """Adds the matches, one record a side; those of a key in the order of the first side's records, then of the
    second's, and so on."""
    window.stamp += 1
    for side in range(1, window.sides):
        index(s, window, side, start, position)
    content = contents.content_of(window, 0)
    low = contents.until(content, start, 0)
    for number in range(low, contents.until(content, position, low)):
        row = contents.row_of(content, number)
        if row.key != contents.ELSEWHERE:
            partners(s, window, 1, row, stream)


@compiled
def head_of(window: Any, side: int, key: int) -> int:
    """First record of a key on a side; -1 if there is none."""
    entry = contents.entry_of(k.table_at(window.tables + k.TABLE_BYTES * side), key, window.stamp)
    return entry.head if entry.stamp == window.stamp else -1


@compiled
def partners(s: Any, window: Any, first: int, own: Any, stream: int) -> None:
    """Adds all combinations of a record of the first side with those of its key on the others, like an odometer."""
    for side in range(first, window.sides):
        head = head_of(window, side, own.key)
        if head < 0:
            return
        contents.content_of(window, side).low_key = head
    last = window.sides - 1
    while goes_on(s, 1):
        oldest_born_s, oldest_taken_s, wait_s = own.born_s, own.taken_s, waited_s(window, own)
        for side in range(first, window.sides):
            content = contents.content_of(window, side)
            row = contents.row_of(content, content.low_key)
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
            content = contents.content_of(window, side)
            following = contents.row_of(content, content.low_key).following
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
            content = contents.content_of(window, side)
            low = contents.until(content, position - window.slide, 0)
            fresh += contents.until(content, position, low) - low
    for _ in range(rounded(s, stream, window.amplification * fresh)):
        if not goes_on(s, 1):
            return
        born_s, taken_s, wait_s = math.inf, math.inf, 0.0
        present = 0
        for side in range(window.sides):
            content = contents.content_of(window, side)
            low = contents.until(content, start, 0)
            count = contents.until(content, position, low) - low
            if count > 0:
                present += 1
                row = contents.row_of(content, low + int(uniform(s, stream) * count))
                born_s = row.born_s if row.born_s < born_s else born_s
                if row.taken_s < taken_s:
                    taken_s, wait_s = row.taken_s, waited_s(window, row)
        if present == 0:
            return
        add_result(s, window, contents.ELSEWHERE, born_s, taken_s, wait_s)


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
        item.key = contents.draw_key(s, window, contents.side_of(window, item), task.stream, logic.kin, item)
    if window.by_time:
        return 0.0
    window.seen += 1
    accumulators.put_in(s, window, item, float(window.seen))
    window.ready_s, window.last_s = item.ready_s, item.taken_s
    if window.seen % int(window.slide):
        return 0.0
    before = window.found_count
    work_s = evaluate(s, window, float(window.seen), task.stream)
    accumulators.forget(window, float(window.seen) + window.slide - window.length, window.seen // int(window.slide))
    return work_s + (window.found_count - before) * logic.send_s


@compiled
def emit_window(s: Any, task: Any, logic: Any, item: Any) -> None:
    """Puts a served record into a window over time; sends the results of a window that counts records."""
    window = k.window_at(logic.window)
    if window.by_time:
        accumulators.put_in(s, window, item, task.end_s)
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
