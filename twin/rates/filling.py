"""Filling of an overloaded job from an empty start, as a fluid.

At first every operator takes its input as far as its cores let it: the rest waits in its channels. When these are full,
its producers are held back to its rate, and leave their cores to others; their own channels fill, and so on up to the
sources. The rate at which an operator takes and sends thus changes twice: once a channel of its own output is full, and
once one is that leads to the job's bottleneck, from when on the steady state holds.

A record waits in a channel from when its producer passes it until its consumer does; these times are inverses of the
cumulative curves of both, the amounts that each has passed by a time (Newell, "Applications of queueing theory", 1982,
chapter 1). Amounts are seconds of the offered rate, and rates shares of it. Letters at the end of a name are the axes
of `twin.rates.layout`; M is the plans that are throttled.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from twin.rates.arrays import JobArrays
from twin.rates.channels import MeasuredSpan
from twin.rates.layout import Layout
from twin.rates.load import Load
from twin.rates.sockets import FULL, demands

ROUNDS = 3
"""Rounds of dealing the cores of full sockets: tasks that get less input leave cores to others."""
NEARLY = 1.0 - 1e-6
"""Share above which all is taken, but for rounding."""
HIGHEST = 1e3
"""Highest level of a socket, over that at the offered rates, which is as good as no limit."""
NEVER = 1e12
"""Time in seconds that stands for never."""


class Curve(NamedTuple):
    """Cumulative curve: the amount that has passed by a time. rates_3: three rates, one after the other; turns_2: the
    times in seconds at which they change."""

    rates_3: np.ndarray
    turns_2: np.ndarray

    def of(self, o: int) -> Curve:
        """Curve of one operator."""
        return Curve(self.rates_3[:, o], self.turns_2[:, o])

    def by(self, at_s: np.ndarray | float) -> np.ndarray:
        """Amount that has passed by then."""
        return self._amount(self._until(at_s))

    def mean(self, measured: MeasuredSpan) -> np.ndarray:
        """Mean rate over a part of a run."""
        return np.asarray((self.by(measured.end_s) - self.by(measured.start_s)) / measured.length_s)

    def between(self, times_2: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Amounts that have passed by two times [2, M], and the mean time at which those in between pass."""
        lasted = self._until(times_2)
        amounts_2 = self._amount(lasted)
        return amounts_2, self._mean_when(lasted, amounts_2)

    def when(self, amounts_2: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Times at which a lower and a higher amount have passed [2, M], and the mean time of those in between."""
        (first_s, then_s), (first, rate, then) = self.turns_2, self.rates_3
        left_2 = amounts_2 - first * first_s
        beyond_2 = left_2 - rate * (then_s - first_s)
        lasted = (
            np.minimum(amounts_2 / first, first_s),
            np.minimum(np.maximum(left_2, 0.0) / rate, then_s - first_s),
            np.maximum(beyond_2, 0.0) / then,
        )
        return lasted[0] + lasted[1] + lasted[2], self._mean_when(lasted, amounts_2)

    def _until(self, at_s: np.ndarray | float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Seconds for which each of the rates has lasted by then."""
        first_s, then_s = self.turns_2
        first, both = np.minimum(at_s, first_s), np.minimum(at_s, then_s)
        return first, both - first, at_s - both

    def _amount(self, lasted: tuple[np.ndarray, np.ndarray, np.ndarray]) -> np.ndarray:
        first, rate, then = self.rates_3
        return np.asarray(first * lasted[0] + rate * lasted[1] + then * lasted[2])

    def _mean_when(self, lasted: tuple[np.ndarray, np.ndarray, np.ndarray], amounts_2: np.ndarray) -> np.ndarray:
        (first_s, then_s), (first, rate, then) = self.turns_2, self.rates_3
        moments_2 = first / 2.0 * lasted[0] ** 2 + rate * lasted[1] * (first_s + lasted[1] / 2.0)
        moments_2 += then * lasted[2] * (then_s + lasted[2] / 2.0)
        return np.asarray((moments_2[1] - moments_2[0]) / np.maximum(amounts_2[1] - amounts_2[0], 1e-300))


class Filling(NamedTuple):
    """Filling of M plans, in shares of what is offered. taken, sent: what operators take and send [O, M]; leaves_sn:
    what a stream's consumer takes of it at first [S, M]."""

    taken: Curve
    sent: Curve
    leaves_sn: np.ndarray


class _Start(NamedTuple):
    """Start of a run, while nothing is held back: input that comes to operators, that they take, and output that they
    send [O, M]; part of a stream that its consumer takes, and that it would take if all its subtasks were as slow as
    the slowest [S, M]."""

    came: np.ndarray
    taken: np.ndarray
    sent: np.ndarray
    leaves_sn: np.ndarray
    slowest_sn: np.ndarray


class _Held(NamedTuple):
    """Times at which an operator's output is held back at first and for good, in seconds, and the part of it that
    remains in between. [O, M]"""

    early_s: np.ndarray
    part: np.ndarray
    late_s: np.ndarray


def filling(layout: Layout, rows: np.ndarray, offered: Load, reached: Load, full_sn: np.ndarray) -> Filling:
    """Filling of the plans in `rows`, in which some source is held back. full_sn: as in `shown`, of these. [S, M]"""
    job = layout.job
    then_in, then_out = _over(reached.in_on, offered.in_on)[:, rows], _over(reached.out_on, offered.out_on)[:, rows]
    carried_sn = np.broadcast_to(layout.carried_sn(offered.out_on), (len(job.streams), layout.size))[:, rows]
    limited_on = ((reached.cpu_on > FULL) & (reached.used_on < FULL))[:, rows]  # by calls or bursts, not by cores
    if job.places.limited:  # by memory, for which a subtask waits on its core
        limited_on |= (reached.cpu_on > FULL)[:, rows] & ~_by_cores(layout, rows, offered, then_in)
    for o in job.sources:  # if no channel of its own fills, the source itself is slow
        limited_on[o] |= ~full_sn[job.outputs[o]].any(axis=0)
    most_on = np.where(limited_on, then_in, np.inf)
    start = _start(layout, rows, offered, carried_sn, most_on, (then_in, then_out))
    held = _held_back(job, full_sn, room_sn(layout, reached)[:, rows] / np.maximum(carried_sn, 1e-12), start, then_out)
    taken, sent = (
        Curve(np.stack([each, each, then]), np.stack([held.early_s, held.late_s]))
        for each, then in ((start.taken, then_in), (start.sent, then_out))
    )
    for o, streams in enumerate(job.inputs):
        part, turn_s, then_s = held.part[o], held.early_s[o], held.late_s[o]
        if streams:
            producers = [job.producer_s[s] for s in streams]
            coming = (carried_sn[streams] * sent.rates_3[:2, producers]).sum(axis=1)
            before_s = sent.turns_2[0, producers].min(axis=0)
            sooner = (before_s < turn_s) & (start.taken[o] >= start.came[o] * NEARLY)
            part = np.where(sooner & (coming[0] > 0.0), coming[1] / np.maximum(coming[0], 1e-300), part)
            turn_s = np.where(sooner, before_s, turn_s)
            begins_s = sent.turns_2[1, producers].min(axis=0)
            for s, p in zip(streams, producers, strict=True):
                before, rate = sent.of(p), start.leaves_sn[s]
                left = np.maximum(before.by(before.turns_2[1]) - before.rates_3[2] * before.turns_2[1], 0.0)
                drained_s = left / np.maximum(rate - before.rates_3[2], 1e-12)
                waits = (rate < start.sent[p] * NEARLY) & ~full_sn[streams].any(axis=0)
                begins_s = np.maximum(begins_s, np.where(waits, drained_s, 0.0))
            then_s = np.minimum(np.minimum(then_s, begins_s), NEVER)
        turns_2 = np.stack([np.minimum(turn_s, then_s), then_s])
        for curve in (taken, sent):
            curve.rates_3[1, o] *= part
            curve.turns_2[:, o] = turns_2
    return Filling(taken, sent, start.leaves_sn)


def _by_cores(layout: Layout, rows: np.ndarray, offered: Load, then_in: np.ndarray) -> np.ndarray:
    """Whether cores would limit operators that take shares `then_in` of the offer, if memory had no limit. [O, M]"""
    part = layout.select(rows)
    busy_cn = np.broadcast_to(demands(layout, offered)[0], layout.count_cn.shape)[:, rows] * then_in[part.operator_c]
    full_cn = part.on_sockets(busy_cn * part.count_cn) > FULL * part.capacity_cn
    full_cn = part.here_cn & (full_cn | (busy_cn > FULL * part.core_cn))
    return np.stack([full_cn[part.cells(o)].any(axis=0) for o in range(len(then_in))])


def _over(some_on: np.ndarray, offered_on: np.ndarray) -> np.ndarray:
    found = np.divide(some_on, offered_on, out=np.ones(some_on.shape), where=offered_on > 0.0)
    return np.asarray(np.clip(found, 1e-9, 1.0))


def _start(
    layout: Layout,
    rows: np.ndarray,
    offered: Load,
    carried_sn: np.ndarray,
    most_on: np.ndarray,
    then: tuple[np.ndarray, np.ndarray],
) -> _Start:
    """Rates at the start of a run. most_on: highest share that operators take. then: shares that they take, and send,
    in the end. [O, M]"""
    job, part, (then_in, then_out) = layout.job, layout.select(rows), then
    less = np.where(then_in < NEARLY, np.log(then_in), -np.inf)
    powers = np.where(np.isinf(less), 1.0, np.log(then_out) / less)  # 1, but about 2 of joins, and 0 of time windows
    # where the poorer side of a join alone falls short, it is far more; with less, results fall with each side at most
    steepest = np.minimum(powers, [[max(1.0, len(streams))] for streams in job.inputs])
    came, taken, sent = np.ones((3, *then_in.shape))
    arrives_sn, leaves_sn, slowest_sn = np.ones((3, *carried_sn.shape))
    cores = _Cores(part, *(np.broadcast_to(each, layout.count_cn.shape)[:, rows] for each in demands(layout, offered)))
    ways_sn = 1.0 / np.maximum(offered.stream_sn[:, rows], 1e-12)
    for turn in range(ROUNDS):
        if turn:
            cores.deal(came)
        for o, streams in enumerate(job.inputs):
            if streams:
                rates = carried_sn[streams] * arrives_sn[streams]
                came[o] = _over(rates.sum(axis=0), carried_sn[streams].sum(axis=0))
            cells = part.cells(o)
            takes = np.minimum(np.minimum(came[o], most_on[o]), cores.enough_cn[cells])
            taken[o] = (takes * part.share_cn[cells]).sum(axis=0)
            worst = np.where(part.here_cn[cells], takes, np.inf).min(axis=0)
            if not streams:
                taken[o] = np.maximum(taken[o], then_in[o])
            sent[o] = np.maximum(taken[o], then_in[o]) ** powers[o]
            sent[o] *= np.minimum(taken[o] / then_in[o], 1.0) ** steepest[o]
            for s in job.outputs[o]:
                arrives_sn[s] = np.minimum(sent[o], ways_sn[s])
            for s in streams:  # streams wait in one line
                leaves_sn[s] = arrives_sn[s] * taken[o] / came[o]
                slowest_sn[s] = arrives_sn[s] * worst / came[o]
    return _Start(came, taken, sent, leaves_sn, slowest_sn)


class _Cores:
    """Cores of full sockets, dealt by a level up to which each task gets what it needs; in rounds, as this depends on
    what others send on. enough_cn: share of its offered input for which a subtask gets cores. [C, M]"""

    def __init__(self, part: Layout, busy_cn: np.ndarray, speed_cn: np.ndarray) -> None:
        """busy_cn: cores that a subtask needs for all that is offered; speed_cn: cores that it then gets beside
        others."""
        self.part, self.busy_cn, self.speed_cn = part, np.maximum(busy_cn, 1e-12), speed_cn
        self.over_cn = part.on_sockets(busy_cn * part.count_cn) > part.capacity_cn
        self.level_cn = np.ones_like(busy_cn)
        self.enough_cn = speed_cn / self.busy_cn
        self.last: tuple[np.ndarray, np.ndarray] | None = None

    def deal(self, came: np.ndarray) -> None:
        """Moves levels to where sockets are just used up, by the secant rule. came: share of the input that comes to
        operators. [O, M]"""
        part, level_cn = self.part, self.level_cn
        gets_cn = self.busy_cn * np.minimum(came[part.operator_c], self.enough_cn)
        idle_cn = part.capacity_cn - part.on_sockets(gets_cn * part.count_cn)
        ahead_cn = level_cn * part.capacity_cn / np.maximum(part.capacity_cn - idle_cn, 1e-12)
        if self.last is not None:
            before_cn, before_idle_cn = self.last
            moved_cn, fell_cn = level_cn - before_cn, before_idle_cn - idle_cn
            steep = fell_cn * np.sign(moved_cn) > 1e-9
            ahead_cn = np.where(steep, level_cn + idle_cn * moved_cn / np.where(steep, fell_cn, 1.0), ahead_cn)
        self.last = level_cn, idle_cn
        self.level_cn = np.where(self.over_cn, np.clip(ahead_cn, 1.0, HIGHEST), 1.0)
        self.enough_cn = np.minimum(self.speed_cn * self.level_cn, part.core_cn) / self.busy_cn


def room_sn(layout: Layout, reached: Load) -> np.ndarray:
    """Records that all channels of a stream that fill can hold. [S, N]"""
    job = layout.job
    queues_sn = layout.queues_on[job.consumer_s]
    if layout.pair_c is not None:  # only channels of the busiest subtask fill
        queues_sn = queues_sn / np.where(reached.cpu_on > FULL, layout.busiest_on, 1.0)[job.consumer_s]
    per_s_sn = layout.carried_sn(reached.out_on) / np.maximum(queues_sn, 1e-9)
    return np.asarray(queues_sn * layout.debloated_sn(layout.first_room_sn, per_s_sn))


def _held_back(job: JobArrays, full_sn: np.ndarray, room_sn: np.ndarray, start: _Start, then: np.ndarray) -> _Held:
    """Times at which operators are held back. room_sn: seconds of the offered rate that a stream's channels hold [S,
    M]. then: shares that operators send in the end [O, M].

    Behind an operator that is held back, a channel fills by the rate by which it takes less than before.
    """
    early_s, late_s, part = np.full(then.shape, NEVER), np.full(then.shape, NEVER), np.ones(then.shape)
    for o in reversed(range(len(job.names))):
        sent, passed = start.sent[o], []
        for s in job.outputs[o]:
            c, rate = job.consumer_s[s], start.slowest_sn[s]
            passed.append(Curve(np.stack([rate, rate * part[c], then[o]]), np.stack([early_s[c], late_s[c]])))
            early = np.where(full_sn[s], _full_s(room_sn[s], sent, passed[-1]), NEVER)
            early_s[o] = np.minimum(early_s[o], early)
            late_s[o] = np.minimum(late_s[o], np.where(late_s[c] < NEVER, np.maximum(early, late_s[c]), early))
        lasts_s = late_s[o] - early_s[o]
        for s, mine in zip(job.outputs[o], passed, strict=True):
            rest = mine.by(late_s[o]) + room_sn[s] - sent * early_s[o]  # channels are full by then
            most = np.where(full_sn[s] & (lasts_s > 0.0), rest / np.maximum(lasts_s * sent, 1e-12), 1.0)
            part[o] = np.clip(most, 1e-9, part[o])
    return _Held(early_s, part, late_s)


def _full_s(room: np.ndarray, sent: np.ndarray, passed: Curve) -> np.ndarray:
    """Time at which a channel into which `sent` a second comes is full, in seconds. room: what it holds; passed: what
    leaves it. [M]

    Within a chain there is no room: its operators are held back as soon as one of them takes less than comes.
    """
    at_s, held, found = np.zeros(1), np.zeros(1), np.full(room.shape, NEVER)
    for rate, until_s in zip(passed.rates_3, (*passed.turns_2, np.full(1, NEVER)), strict=True):
        grows = np.where(rate < sent * NEARLY, sent - rate, 0.0)
        then_s = at_s + (room - held) / np.maximum(grows, 1e-15)
        found = np.where((found == NEVER) & (grows > 0.0) & (then_s <= until_s), then_s, found)
        at_s, held = until_s, held + grows * (until_s - at_s)
    return found


class Shown(NamedTuple):
    """Means over the measured part of a run. taken_on: share of the offered input that operators take; behind_on:
    seconds that records of a source were at the broker when it reads them; held_s: seconds until an operator is held
    back for good [O, N]. wait_sn: seconds that a stream's records wait because its consumer does not keep up [S, N].
    For plans that keep up they are 1, 0, 0 and 0."""

    taken_on: np.ndarray
    behind_on: np.ndarray
    held_s: np.ndarray
    wait_sn: np.ndarray


def shown(layout: Layout, offered: Load, reached: Load, full_sn: np.ndarray, measured: MeasuredSpan) -> Shown:
    """Means that a run shows of its filling. full_sn: whether a stream's channels are full in the end. [S, N] bool"""
    size_on = len(layout.job.names), layout.size
    found = Shown(np.ones(size_on), np.zeros(size_on), np.zeros(size_on), np.zeros(full_sn.shape))
    rows = np.asarray((reached.out_on < offered.out_on)[layout.job.sources].any(axis=0))
    if rows.any():
        fills = filling(layout, rows, offered, reached, full_sn[:, rows])
        for mine, each in zip(found, _means(layout.job, fills, measured), strict=True):
            mine[:, rows] = each
    return found


def _means(job: JobArrays, fills: Filling, measured: MeasuredSpan) -> Shown:
    """Means for the results that come in the measured part, over their way."""
    taken_on = np.minimum(fills.taken.mean(measured), 1.0)
    span_on = np.zeros((2, *taken_on.shape))  # times between which an operator emits what they are made of
    behind_on, wait_sn = np.zeros_like(taken_on), np.zeros_like(fills.leaves_sn)
    for o in reversed(range(len(job.names))):
        span = span_on[:, o] / len(job.outputs[o]) if job.outputs[o] else np.array(measured)[:, None]
        mine, streams = fills.taken.of(o), job.inputs[o]
        if not streams:
            amounts_2, mean_s = mine.between(span)
            behind_on[o] = np.maximum(mean_s - (amounts_2[0] + amounts_2[1]) / 2.0, 0.0)
        for s in streams:
            before, rate = fills.sent.of(job.producer_s[s]), fills.leaves_sn[s]
            slower = rate * mine.rates_3[1] / mine.rates_3[0]
            amounts_2, left_s = Curve(np.stack([rate, slower, before.rates_3[2]]), mine.turns_2).between(span)
            times_2, came_s = before.when(amounts_2)
            wait_sn[s] = np.maximum(left_s - came_s, 0.0)
            span_on[:, job.producer_s[s]] += times_2
    return Shown(taken_on, behind_on, fills.taken.turns_2[1], wait_sn)
