"""Check of every window over event time, in an exact run, against all tuples that came: each tuple once, and no others.

The oracle is brute force over the tuples that producers sent: it knows nothing of panes, partial results, owners or
migrations.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from twin.engine.windows.panes import History, WindowAudit
from twin.event_time import in_time
from twin.panes import Span, covering
from twin.query import Query
from twin.windows import EventWindow
from twin.wiring.world import World


class HeldKeys(NamedTuple):
    """Number of tuples of a key in a window, and their combined digest."""

    tuples: int
    digest: int


Windows = dict[tuple[int, int, int], HeldKeys]
"""Held keys by start and end of the window in microseconds, and by key."""


class Came:
    """Tuples that came to one operator, by key, in the order of their event times. sure: whether none can be late. If
    some can, tuples that are still under way may be late, and do not count. One that came behind the watermark and was
    taken counts in the windows that were not over then."""

    def __init__(self, audits: Iterable[WindowAudit], sure: bool) -> None:
        by_key: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        self._late_for_one: defaultdict[int, list[int]] = defaultdict(list)
        self._behind: defaultdict[int, list[tuple[int, int, float]]] = defaultdict(list)
        for audit in audits:
            for at_us, key, digest in audit.came:
                if digest in audit.late and digest in audit.kept:
                    self._late_for_one[key].append(at_us)
                if sure or (digest in audit.kept and digest not in audit.late):
                    by_key[key].append((at_us, digest))
                if digest in audit.behind:
                    self._behind[key].append((at_us, digest, audit.behind[digest]))
        self._times: dict[int, list[int]] = {}
        self._digests: dict[int, list[int]] = {}
        for key, tuples in by_key.items():
            tuples.sort()
            self._times[key] = [at_us for at_us, _ in tuples]
            so_far = [0]
            for _, digest in tuples:
                so_far.append(so_far[-1] ^ digest)
            self._digests[key] = so_far

    def open(self, window: tuple[int, int, int]) -> bool:
        """Whether a window has a tuple in it that was sent to two owners and came too late for one of them only."""
        start_us, end_us, key = window
        return any(start_us <= at_us < end_us for at_us in self._late_for_one.get(key, ()))

    def _counted(self, span: Span, key: int, held: HeldKeys) -> HeldKeys:
        """Tuples of a key in a window without those that came when the window was over already."""
        for at_us, digest, watermark_us in self._behind.get(key, ()):
            if span.start <= at_us < span.end <= watermark_us:
                held = HeldKeys(held.tuples - 1, held.digest ^ digest)
        return held

    def over(self, window: EventWindow, far_us: float) -> Iterator[tuple[tuple[int, int, int], HeldKeys]]:
        """Contents of the instances of a window that end by `far_us`, by instance and key; only those with a tuple."""
        for key, times in self._times.items():
            digests = self._digests[key]
            first = 0
            span = covering(window, times[0])[0]
            while span.end <= far_us:
                first = bisect_left(times, span.start, first)
                if first == len(times):
                    break
                end = bisect_left(times, span.end, first)
                if end > first:
                    held = self._counted(span, key, HeldKeys(end - first, digests[first] ^ digests[end]))
                    if held.tuples:
                        yield (span.start, span.end, key), held
                    span = Span(span.start + window.every_us, span.end + window.every_us)
                else:
                    span = covering(window, times[first])[0]


def expected(windows: Iterable[EventWindow], came: Came, watermark_us: float) -> Windows:
    """Windows that should have been emitted when all tuples before `watermark_us` are there."""
    return {span: held for window in windows for span, held in came.over(window, watermark_us)}


def emitted(audit: WindowAudit) -> tuple[Windows, list[tuple[int, int, int]]]:
    """Windows that were emitted, and those that were emitted more than once."""
    emissions: Windows = {}
    twice = []
    for start_us, end_us, key, tuples, digest in audit.emitted:
        if (start_us, end_us, key) in emissions:
            twice.append((start_us, end_us, key))
        emissions[start_us, end_us, key] = HeldKeys(tuples, digest)
    return emissions, twice


def computes_of(query: Query, name: str) -> list[str]:
    """Operators whose tuples are in an operator's windows: itself, or the computes that it merges."""
    operator = query.operator(name)
    if not operator.merges:
        return [name]
    return [compute for stream in query.inputs(name) for compute in computes_of(query, stream.producer)]


def violation(query: Query, world: World) -> str:
    """Describes the first fault of the windows of an exact run, also of undone ones; empty if all are right."""
    histories = [*world.undone, world.history()]
    verdicts = (_wrong(query, history) for history in histories)
    return next((wrong for wrong in verdicts if wrong), "") or _unlike(query, histories)


def _unlike(query: Query, histories: list[History]) -> str:
    """Describes the first window that differs after a failure, though all tuples are the same; else empty."""
    for before, after in pairwise(histories):
        for name, audit in after.audits.items():
            if not in_time(query, name) or not all(after.audits[compute].keys for compute in computes_of(query, name)):
                continue
            first, again = emitted(before.audits[name])[0], emitted(audit)[0]
            for key in [key for key in first if key in again and again[key] != first[key]]:
                return f"{name!r} emitted {first[key]} for {key}, and {again[key]} after a failure"
    return ""


def _wrong(query: Query, history: History) -> str:
    for name, audit in history.audits.items():
        if query.operator(name).hands_over != "windows":
            continue
        audits = [history.audits[compute] for compute in computes_of(query, name)]
        sure = in_time(query, name)
        if sure and any(came.late for came in audits):
            return f"{name!r} dropped tuples as late, though the slack of all sources covers their disorder"
        came = Came(audits, sure)
        far_us = history.far_us[name]
        emissions, twice = emitted(audit)
        if twice:
            return f"{name!r} emitted the window [{twice[0][0]}, {twice[0][1]}) us of key {twice[0][2]} more than once"
        windows: tuple[EventWindow, ...] = tuple(dict.fromkeys(getattr(query.operator(name), "windows", ())))
        most = expected(windows, came, max(far_us))
        least = {window: held for window, held in most.items() if window[1] <= min(far_us)}
        for key in [key for key in least if emissions.get(key) != least[key] and not came.open(key)]:
            return f"{name!r} emitted {emissions.get(key)} for {key}, and {least[key]} came"
        for key in [key for key in emissions if most.get(key) != emissions[key] and not came.open(key)]:
            return f"{name!r} emitted {emissions[key]} for {key}, and {most.get(key)} came"
    return ""
