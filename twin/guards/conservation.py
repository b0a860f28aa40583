"""Laws that every run must obey: conservation of records, and windows over event time that hold what they should. A
violation is a fault of the simulator, never of the scenario."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from twin.job import Job
from twin.operators.panes import History, Missed, WindowAudit
from twin.query import Query, in_time
from twin.windows import EventWindow, Span, covering
from twin.world.parts import Leg, Processor, Task
from twin.world.world import World

# laws of all runs ----------------------------------------------------------------------------------------------------
# Conservation laws that every run must obey. A violation is a fault of the simulator, never of the scenario.


class ConservationError(RuntimeError):
    """Error of a run that created or lost records, or did more work than its processors can."""


def check(job: Job, world: World) -> None:
    """Raises ConservationError, naming the law and the place, if a finished run breaks one."""
    _brokers(world)
    _streams(job, world)
    _routes(world)
    _restarts(world)
    _migrations(world)
    _operators(world)
    _work(world)
    wrong = violation(job.query, world)
    if wrong:
        raise ConservationError(f"a window over event time: {wrong}")


def _require(equal: bool, law: str, place: str, left: float, right: float) -> None:
    if not equal:
        raise ConservationError(f"{law} at {place}: {left} != {right}")


def _brokers(world: World) -> None:
    for brokers in world.brokers.values():
        for broker in brokers:
            taken = broker.source.records_in + broker.backlog
            offered = broker.arrived + broker.moved + world.ledger.replayed[broker.source.name]
            _require(
                offered == taken, "arrived + moved + replayed = taken + backlog", broker.source.name, offered, taken
            )


def _streams(job: Job, world: World) -> None:
    for number, edge in enumerate(job.edges):
        producer = job.components[edge.producer].name
        producers = [*world.tasks[producer], *world.ledger.retired.get(producer, ())]
        inboxes = world.streams[edge.key].inboxes
        copies = edge.how.count_of_copies(len(inboxes))
        position = job.components[edge.producer].outputs.index(number)
        waiting = sum(task.ports[position].waiting() for task in producers)
        stage = [each.name for each in job.components[edge.producer].operators].index(edge.stream.producer)
        made = sum(task.logic.left(stage) - task.ports[position].passed_over for task in producers) * copies
        ledger = world.ledger
        sent = sum(inbox.sent for inbox in inboxes)
        lost = sum(task.ports[position].dropped for task in producers) + ledger.unsent[edge.key]
        known = sent + waiting + lost - world.streams[edge.key].counts.copies
        _require(made == known, "made = sent + waiting + lost unsent - copied", " -> ".join(edge.key), made, known)
    sent = sum(inbox.sent for made in world.streams.values() for inbox in made.inboxes)
    ledger = world.ledger
    here = sum(task.records_in + task.queued for task in _tasks(world) if not task.polls)
    here += sum(buffer.queued for buffer in ledger.buffers)
    carried = sum(card.records_in - card.records_out for card in world.every_card())
    flying = carried - ledger.transfers
    left, right = sent + ledger.restored, here + flying + ledger.lost
    _require(left == right, "sent + restored = taken + queued + in flight + lost", "the network", left, right)


def _tasks(world: World) -> list[Task]:
    """Tasks that exist or existed."""
    return [task for tasks in (*world.tasks.values(), *world.ledger.retired.values()) for task in tasks]


def _restarts(world: World) -> None:
    """Checks that all that a checkpoint held was restored from it."""
    ledger = world.ledger
    _require(ledger.restored == ledger.due, "held by checkpoints = restored", "queues", ledger.due, ledger.restored)
    due, restored = ledger.windows_due, ledger.windows_restored
    _require(math.isclose(due, restored, abs_tol=1e-6), "held by checkpoints = restored", "windows", due, restored)


def _migrations(world: World) -> None:
    """Checks that key groups are with existing subtasks or on their way, and that new owners got waiting records."""
    for name, keys in world.key_groups.items():
        for owner in set(keys.owner):
            holder = keys.tasks[owner]
            waits = any(buffer is holder and buffer.target is None for buffer in world.ledger.buffers)
            home = holder in world.tasks[name] or waits
            _require(home, "key groups have a home", name, owner, len(world.tasks[name]))
    for buffer in world.ledger.buffers:
        left = buffer.queued if buffer.target is not None else 0
        _require(not left, "buffered records are handed over", "a migration", left, 0)
    for name, retired in world.ledger.retired.items():
        left = sum(task.queued for task in retired)
        _require(not left, "subtasks that left have nothing to do", name, left, 0)


def _routes(world: World) -> None:
    """Checks that a card or link carries what its streams put on it, and that no stream gains records at a hop."""
    for name, card in (*world.cards.items(), *world.links.items()):
        _require(card.records_in >= card.records_out, "in = out + in flight", name, card.records_in, card.records_out)
        legs = [hop for hop in card.hops if isinstance(hop, Leg)]
        if len(legs) < len(card.hops):  # without links, records go straight from the card
            continue
        records, size = sum(leg.records for leg in legs), sum(leg.records * leg.bytes_each for leg in legs)
        _require(records == card.records_in, "records carried = records sent", name, card.records_in, records)
        _require(
            math.isclose(size, card.bytes_out, abs_tol=1), "bytes carried = bytes sent", name, card.bytes_out, size
        )
        onward = sum(leg.onward.records for leg in legs if leg.onward is not None)
        ended = sum(leg.records for leg in legs if leg.onward is None)
        _require(
            onward <= card.records_out <= onward + ended + world.ledger.cut_short[card],
            "arrived = onward + delivered",
            name,
            card.records_out,
            onward,
        )


def _operators(world: World) -> None:
    for task in _tasks(world):
        for law, came, went in task.logic.balances(world.ledger.aborted[task.name]):
            _require(came == went, law, task.name, came, went)


def _work(world: World) -> None:
    ahead = defaultdict[Processor, float](float, world.ledger.moving_s)
    for task in _tasks(world):
        ahead[task.processor] += _ahead_s(task)
    for location, processor in world.processors.items():
        limit = processor.capacity * world.env.now * (1 + 1e-9) + ahead[processor]
        if processor.work_s > limit:
            raise ConservationError(f"work <= capacity * time at {location}: {processor.work_s} != {limit}")


def _ahead_s(task: Task) -> float:
    """Core-seconds of a task's work that may lie beyond the end of the run, as work is booked when it begins."""
    service_s = task.in_service_work_s if task.busy else 0.0
    return service_s + max(0.0, task.engaged_until_s - task.env.now) * task.processor.speed


# windows over event time, all at once --------------------------------------------------------------------------------
# Check of all windows over event time at once, in arrays. The next section finds and names what differs.


Rows = np.ndarray
"""Windows: start, end, key, number of records, and their combined digest. [windows, 5]"""


def all_right(
    windows: Iterable[EventWindow],
    audits: Sequence[WindowAudit],
    sure: bool,
    emitting: WindowAudit,
    far_us: Sequence[float],
) -> bool:
    """Whether just the windows were emitted that should be, each once and with just its records.

    audits: of the records that came. sure: whether none can be late. far_us: watermarks of the subtasks, of which each
    has emitted its windows up to there. False also where records came behind the watermark, which is not looked at
    here.
    """
    if any(audit.behind for audit in audits) or (emitting.missed and not sure):
        return False
    least_us, most_us = min(far_us), max(far_us)
    records = _records(audits, sure)
    due = [_expected(window, records, most_us) for window in dict.fromkeys(windows)] if len(records[0]) else []
    expected, emitted = _sorted(np.concatenate([_none(), *due])), _sorted(np.array([*_none(), *emitting.emitted]))
    early, sent = expected[:, 1] <= least_us, emitted[:, 1] <= least_us
    if not np.array_equal(expected[early], emitted[sent]):
        return False
    rest, late = expected[~early], emitted[~sent]
    return len(np.unique(np.concatenate([rest, late]), axis=0)) == len(rest) and len(np.unique(late, axis=0)) == len(
        late
    )


def _none() -> Rows:
    return np.zeros((0, 5), np.int64)


def _sorted(rows: Rows) -> Rows:
    rows = rows.reshape(-1, 5)
    return rows[np.lexsort((rows[:, 2], rows[:, 1], rows[:, 0]))]


def _records(audits: Sequence[WindowAudit], sure: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Keys, times and digests of the records that count, by key and time."""
    found = [np.zeros((0, 3), np.int64)]
    for audit in audits:
        came = np.array(audit.came, np.int64).reshape(-1, 3)
        if not sure:
            kept, late = (np.fromiter(digests, np.int64, len(digests)) for digests in (audit.kept, audit.late))
            came = came[np.isin(came[:, 2], kept) & ~np.isin(came[:, 2], late)]
        lost = np.fromiter(audit.lost, np.int64, len(audit.lost))
        found.append(came[~np.isin(came[:, 2], lost)])
    at_us, keys, digests = np.concatenate(found).T
    order = np.lexsort((at_us, keys))
    return keys[order], at_us[order], digests[order]


def _expected(window: EventWindow, records: tuple[np.ndarray, np.ndarray, np.ndarray], far_us: float) -> Rows:
    """Contents of the instances of a window that end by `far_us`, by key; only those with a record."""
    keys, at_us, digests = records
    names, places = np.unique(keys, return_inverse=True)
    first = (at_us - window.start_us - window.length_us) // window.every_us + 1
    last = (at_us - window.start_us) // window.every_us
    if far_us != np.inf:
        last = np.minimum(last, (int(max(far_us, -(2**62))) - window.start_us - window.length_us) // window.every_us)
    least = int(first.min())
    count = int(last.max()) - least + 1  # of instances with any record
    pairs = [np.zeros(0, np.int64)]
    for more in range(-(-window.length_us // window.every_us)):
        some = first + more <= last
        pairs.append(places[some] * max(1, count) + (first[some] + more - least))
    name, number = np.divmod(np.unique(np.concatenate(pairs)), max(1, count))
    start_us = window.start_us + (least + number) * window.every_us
    time_us, times = np.unique(at_us, return_inverse=True)
    rank = places * (len(time_us) + 1) + times
    low, high = (
        np.searchsorted(rank, name * (len(time_us) + 1) + np.searchsorted(time_us, edge_us))
        for edge_us in (start_us, start_us + window.length_us)
    )
    so_far = np.concatenate([[0], np.bitwise_xor.accumulate(digests)])
    columns = start_us, start_us + window.length_us, names[name], high - low, so_far[low] ^ so_far[high]
    return np.stack(columns, axis=1)


# windows over event time, each ---------------------------------------------------------------------------------------
# Check of every window over event time, in an exact run, against all records that came: each record once, and no
# others.
#
# The oracle is brute force over the records that producers sent: it knows nothing of panes, partial results, owners or
# migrations.


class HeldKeys(NamedTuple):
    """Number of records of a key in a window, and their combined digest."""

    records: int
    digest: int


Windows = dict[tuple[int, int, int], HeldKeys]
"""Held keys by start and end of the window in microseconds, and by key."""


class Came:
    """Records that came to one operator, by key, in the order of their event times, without those for which there was
    no room. sure: whether none can be late. If some can, records that are still under way may be late, and do not
    count. One that came behind the watermark and was taken counts in the windows that were not over then. missed:
    partial results that came when a window with them was over, or had not come by the end."""

    def __init__(self, audits: Iterable[WindowAudit], sure: bool, missed: Iterable[Missed] = ()) -> None:
        by_key: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        self._missed_by_one: defaultdict[int, list[int]] = defaultdict(list)
        for start_us, _, key in missed:
            self._missed_by_one[key].append(start_us)
        self._behind: defaultdict[int, list[tuple[int, int, float]]] = defaultdict(list)
        for audit in audits:
            for at_us, key, digest in audit.came:
                refused, kept = digest in audit.late or digest in audit.lost, digest in audit.kept
                if refused and kept:
                    self._missed_by_one[key].append(at_us)
                if not refused and (sure or kept):
                    by_key[key].append((at_us, digest))
                if digest in audit.behind:
                    self._behind[key].append((at_us, digest, audit.behind[digest]))
        self._times: dict[int, list[int]] = {}
        self._digests: dict[int, list[int]] = {}
        for key, records in by_key.items():
            records.sort()
            self._times[key] = [at_us for at_us, _ in records]
            so_far = [0]
            for _, digest in records:
                so_far.append(so_far[-1] ^ digest)
            self._digests[key] = so_far

    def open(self, window: tuple[int, int, int]) -> bool:
        """Whether a window has a record in it that was sent to two owners, and came too late for one of them only, or
        found no room; or a partial result that was missed."""
        start_us, end_us, key = window
        return any(start_us <= at_us < end_us for at_us in self._missed_by_one.get(key, ()))

    def _counted(self, span: Span, key: int, held: HeldKeys) -> HeldKeys:
        """Records of a key in a window without those that came when the window was over already."""
        for at_us, digest, watermark_us in self._behind.get(key, ()):
            if span.start <= at_us < span.end <= watermark_us:
                held = HeldKeys(held.records - 1, held.digest ^ digest)
        return held

    def over(self, window: EventWindow, far_us: float) -> Iterator[tuple[tuple[int, int, int], HeldKeys]]:
        """Contents of the instances of a window that end by `far_us`, by instance and key; only those with a record."""
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
                    if held.records:
                        yield (span.start, span.end, key), held
                    span = Span(span.start + window.every_us, span.end + window.every_us)
                else:
                    span = covering(window, times[first])[0]


def expected(windows: Iterable[EventWindow], came: Came, watermark_us: float) -> Windows:
    """Windows that should have been emitted when all records before `watermark_us` are there."""
    return {span: held for window in windows for span, held in came.over(window, watermark_us)}


def emitted(audit: WindowAudit) -> tuple[Windows, list[tuple[int, int, int]]]:
    """Windows that were emitted, and those that were emitted more than once."""
    emissions: Windows = {}
    twice = []
    for start_us, end_us, key, records, digest in audit.emitted:
        if (start_us, end_us, key) in emissions:
            twice.append((start_us, end_us, key))
        emissions[start_us, end_us, key] = HeldKeys(records, digest)
    return emissions, twice


def computes_of(query: Query, name: str) -> list[str]:
    """Operators whose records are in an operator's windows: itself, or the computes that it merges."""
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
    """Describes the first window that differs after a failure, though all records are the same; else empty."""
    for before, after in pairwise(histories):
        for name, audit in after.audits.items():
            if not in_time(query, name) or not all(_same(after.audits[each]) for each in computes_of(query, name)):
                continue
            first, again = emitted(before.audits[name])[0], emitted(audit)[0]
            for key in [key for key in first if key in again and again[key] != first[key]]:
                return f"{name!r} emitted {first[key]} for {key}, and {again[key]} after a failure"
    return ""


def _same(audit: WindowAudit) -> bool:
    """Whether all records are the same when they are read again."""
    return bool(audit.keys) and all(digest in audit.keys for _, _, digest in audit.came)


def _wrong(query: Query, history: History) -> str:
    for name, audit in history.audits.items():
        if query.operator(name).hands_over != "windows":
            continue
        audits = [history.audits[compute] for compute in computes_of(query, name)]
        sure = in_time(query, name)
        if sure and any(came.late for came in audits):
            return f"{name!r} dropped records as late, though the slack of all sources covers their disorder"
        far_us = history.far_us[name]
        if all_right(query.operator(name).event_windows, audits, sure, audit, far_us):
            continue
        held = [piece for compute in computes_of(query, name) for piece in history.held[compute]]
        came = Came(audits, sure, () if sure else [*audit.missed, *held, *history.under_way])
        emissions, twice = emitted(audit)
        if twice:
            return f"{name!r} emitted the window [{twice[0][0]}, {twice[0][1]}) us of key {twice[0][2]} more than once"
        windows: tuple[EventWindow, ...] = tuple(dict.fromkeys(query.operator(name).event_windows))
        most = expected(windows, came, max(far_us))
        least = {window: held for window, held in most.items() if window[1] <= min(far_us)}
        for key in [key for key in least if emissions.get(key) != least[key] and not came.open(key)]:
            return f"{name!r} emitted {emissions.get(key)} for {key}, and {least[key]} came"
        for key in [key for key in emissions if most.get(key) != emissions[key] and not came.open(key)]:
            return f"{name!r} emitted {emissions[key]} for {key}, and {most.get(key)} came"
    return ""
