"""Every window over event time, in a fast run, against the tuples that came: so many are in it, over all replicas.

A fast run knows how many tuples there are and not which, so this is less than the check of exact runs
(`twin.guards.event_windows`); a window that is lost, emitted twice, or that a migration leaves a part of, is noticed.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from itertools import accumulate

from twin.engine.event_time.audit import History, Tally
from twin.event_windows.instances import completed
from twin.event_windows.window import EventWindow
from twin.guards.event_windows import computes_of, in_time
from twin.query import Query
from twin.wiring.world import World

CLOSE, SURE = 1e-6, 6.0
"""Relative; and standard deviations of what was sent to two owners, whose parts are drawn apart."""


class Came:
    """Tuples by event time, and how many came before one."""

    def __init__(self, tallies: Iterable[Tally]) -> None:
        counts = Counter[int]()
        for tally in tallies:
            counts.update(tally.came)
            counts.subtract(tally.late)
        self.times = sorted(counts)
        self._before = [0, *accumulate(counts[at_us] for at_us in self.times)]

    def over(self, start_us: int, end_us: int) -> int:
        """Within a span."""
        return self._before[bisect_left(self.times, end_us)] - self._before[bisect_left(self.times, start_us)]


def violation(query: Query, world: World) -> str:
    """What is wrong with the windows of a fast run, also with those that failures undid; empty if all are right.

    Where the slack of a source does not cover its disorder nothing is said: what is late may still be under way.
    """
    copied = {ends for ends, each in world.copied.items() if each.n}
    found = (_violation(query, history, copied) for history in (*world.undone, world.history()))
    return next((wrong for wrong in found if wrong), "")


def _violation(query: Query, history: History, to_both: set[tuple[str, str]]) -> str:
    for name, tally in history.tallies.items():
        if query.operator(name).hands_over != "windows" or not in_time(query, name):
            continue
        computes = computes_of(query, name)
        if any(history.tallies[each].late for each in computes):
            return f"{name!r} dropped tuples as late, though the slack of all sources covers their disorder"
        copied = any((stream.producer, each) in to_both for each in computes for stream in query.inputs(each))
        windows: tuple[EventWindow, ...] = tuple(dict.fromkeys(getattr(query.operator(name), "windows", ())))
        came = Came(history.tallies[each] for each in computes)
        wrong = _wrong(windows, tally, came, history.far_us[name], copied)
        if wrong:
            return f"{name!r} {wrong}"
    return ""


def _wrong(windows: Iterable[EventWindow], tally: Tally, came: Came, far_us: list[float], copied: bool) -> str:
    """Windows that are complete at all replicas have all tuples; others have no more than came."""
    least_us = min(far_us)
    for (start_us, end_us), found in tally.emitted.items():
        due = came.over(start_us, end_us)
        if found > due + _margin(due, copied):
            return f"emitted {found:g} tuples in the window [{start_us}, {end_us}) us, and {due} came"
    if least_us == -math.inf or not came.times:
        return ""
    for span in {
        span for each in windows for span in completed(each, min(came.times[0], int(least_us)), int(least_us))
    }:
        due, found = came.over(*span), tally.emitted.get((span.start, span.end), 0.0)
        if found < due - _margin(due, copied):
            return f"emitted {found:g} tuples in the window [{span.start}, {span.end}) us, and {due} came"
    return ""


def _margin(due: int, copied: bool) -> float:
    return CLOSE * (1 + due) + (SURE * math.sqrt(due) if copied else 0.0)
