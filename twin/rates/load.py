"""Loads of every operator, socket, network card and channel under N plans at once: at given source rates, and at those
that sources reach once they are held back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from twin.deployment import flows
from twin.kinds.flow import Flow, Mixing
from twin.kinds.windowed import Windowed
from twin.rates.arrays import JobArrays
from twin.rates.channels import MeasuredSpan, burst_blocking, felt, held_back, held_up, used_cards
from twin.rates.layout import Layout
from twin.rates.sockets import MEGA, Cells, demands, share_cores
from twin.workload import key_groups_of

if TYPE_CHECKING:
    from twin.rates.latency import Ages


# loads at given rates ------------------------------------------------------------------------------------------------
# Demands are in reference cores (CPU seconds a second); a pressure above 1 means that the operator cannot keep up. The
# demands of subtasks differ where their sockets or their shares of the input do; the most loaded one decides. A host
# that garbage collection slows down counts as one with slower cores (`Layout.slowed`), so demands are as without it.
# Axes are those of `twin.rates.layout`.


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """State of N plans at some source rates. The first six are those of `twin.kinds.flow.Flow`, [O, N].

    service_on: CPU time of an input record, without window evaluations. line_s_on, line_scv_on: CPU time of all chained
    operators from this one on, and its squared coefficient of variation. busy_on: demand of one subtask, in cores.
    used_on: demand of the mean subtask over the cores that the slowest gets. speed_on: cores that a subtask can get
    beside the others there. cpu_on: utilisation of the cores that an operator uses, or of the system outside that it
    calls; card_sn: of the network cards and links that a stream crosses; credits_sn: of a channel's credits by records
    in flight. cpu_hn, card_hn: utilisation of a host's cores and of its network card. cells: loads by cell, where these
    differ.
    """

    in_on: np.ndarray
    out_on: np.ndarray
    window_on: np.ndarray
    fires_on: np.ndarray
    groups_on: np.ndarray
    bursts_on: np.ndarray
    service_on: np.ndarray
    line_s_on: np.ndarray
    line_scv_on: np.ndarray
    busy_on: np.ndarray
    used_on: np.ndarray
    speed_on: np.ndarray
    cpu_on: np.ndarray
    card_sn: np.ndarray
    credits_sn: np.ndarray
    cpu_hn: np.ndarray
    card_hn: np.ndarray
    cells: Cells | None = None

    @property
    def stream_sn(self) -> np.ndarray:
        """Pressure on the streams: the highest utilisation among cards, links and credits. [S, N]"""
        return np.maximum(self.card_sn, self.credits_sn)

    def pressure(self, job: JobArrays) -> np.ndarray:
        """Highest utilisation among what an operator depends on: its CPU and its output streams. [O, N]"""
        worst_on, stream_sn = self.cpu_on.copy(), self.stream_sn
        for s, producer in enumerate(job.producer_s):
            np.maximum(worst_on[producer], stream_sn[s], out=worst_on[producer])
        return worst_on

    def with_part(self, rows: np.ndarray, part: Load) -> Load:
        """Load in which the plans in `rows` (a mask [N]) are replaced by those of `part`, which has these alone."""
        names = [field.name for field in fields(Load) if field.name != "cells"]
        columns: dict[str, Any] = {name: _with_part(getattr(self, name), rows, getattr(part, name)) for name in names}
        if self.cells is not None and part.cells is not None:
            pairs = zip(self.cells, part.cells, strict=True)
            columns["cells"] = Cells(*(_with_part(mine, rows, other) for mine, other in pairs))
        return Load(**columns)


def _with_part(mine: np.ndarray, rows: np.ndarray, part: np.ndarray) -> np.ndarray:
    whole = np.broadcast_to(mine, (len(mine), len(rows))).copy()
    whole[:, rows] = part
    return whole


def offered_flow(job: JobArrays, counted: Mapping[str, np.ndarray] | None = None) -> dict[str, Flow]:
    """Flow if every source keeps up; arrays of one entry, as it is the same under all plans, unless `counted` (see
    `Layout.counted`) makes it differ."""
    size = max((len(each) for each in (counted or {}).values()), default=1)
    return flow_at(job, {name: np.full(size, rate) for name, rate in job.offered_per_s.items()}, counted=counted)


def flow_at(
    job: JobArrays,
    rates: Mapping[str, np.ndarray],
    stalls_s: Mapping[str, np.ndarray] | None = None,
    counted: Mapping[str, np.ndarray] | None = None,
) -> dict[str, Flow]:
    """Flow at given rates of the sources. stalls_s: as in `twin.deployment.Channels`; counted: its `parallelism`."""
    channels = job.channels._replace(stalls_s=stalls_s or {}, parallelism=counted or {})
    return flows(job.deployment.query, rates, True, channels)


def load(layout: Layout, flow: Mapping[str, Flow]) -> Load:
    """Adds up the demand of a flow on every resource. flow: arrays of N entries, or of one for all plans."""
    job, engine = layout.job, layout.job.deployment.engine
    in_on, out_on, window_on, fires_on, groups_on, bursts_on = stacked(job, flow)
    sent_sn = layout.carried_sn(out_on)
    work_on = job.costs.service.total(in_on, sent_sn) + np.zeros(layout.size)
    remote_sn = layout.remote_sn * job.costs.bytes_s[:, None] * 1e-9
    written_sn = remote_sn * sent_sn * engine.serialise_ns_per_byte
    read_sn = remote_sn * sent_sn * engine.deserialise_ns_per_byte
    for s, (producer, consumer) in enumerate(zip(job.producer_s, job.consumer_s, strict=True)):
        work_on[producer] += written_sn[s]
        work_on[consumer] += read_sn[s]
    scv_on = np.broadcast_to(job.costs.scv_o[:, None], work_on.shape)
    service_on = np.broadcast_to(job.costs.service.mean_o[:, None], work_on.shape).copy()
    np.divide(work_on, in_on, out=service_on, where=in_on > 0.0)
    if job.windows.all:
        work_on = work_on + scanned_on(job, fires_on, window_on, out_on)
    per_subtask_sn = sent_sn / layout.subtasks_on[job.consumer_s]
    busy_on = work_on / layout.subtasks_on
    fusing = layout.fusing
    task_on = busy_on if fusing is None else fusing.gathered(busy_on)
    busy_cn = task_on[layout.operator_c] * layout.skew_cn
    cells = None
    if layout.sockets is None:
        cpu_cn, speed_cn = share_cores(layout, busy_cn)
        cpu_on, speed_on = layout.worst(cpu_cn), -layout.worst(-speed_cn)
        used_on = task_on / speed_on
        if not layout.single:  # neighbours differ, so the cores that subtasks get do, too
            cells = Cells(service_on[layout.operator_c], busy_cn, speed_cn, cpu_cn)
    else:
        taken_on = in_on / layout.subtasks_on
        cells = layout.sockets.cells(layout, taken_on, per_subtask_sn, busy_cn, service_on)
        cpu_on, speed_on = layout.worst(cells.cpu_cn), -layout.worst(-cells.speed_cn)
        mean_cn = np.where(layout.skew_cn > 0.0, cells.busy_cn / np.maximum(layout.skew_cn, 1e-12), 0.0)
        used_on = layout.worst(np.where(layout.here_cn, mean_cn / cells.speed_cn, 0.0))
        busy_on = layout.over_cells(cells.busy_cn * layout.count_cn) / layout.subtasks_on
        busy_cn, service_on = cells.busy_cn, layout.mean(cells.service_cn)
    line_s_on, line_scv_on = service_on, scv_on
    if fusing is not None:
        cpu_on, speed_on, used_on = map(fusing.spread, (cpu_on, speed_on, used_on))
        line_s_on, line_scv_on = fusing.served(service_on, scv_on, in_on, out_on, fires_on)
    for o, calls in job.calling.items():
        each = in_on[o] / layout.subtasks_on[o] * layout.busiest_on[o]
        cpu_on[o] = np.maximum(cpu_on[o], calls.used(in_on[o], each))
    card_sn, card_hn = used_cards(layout, sent_sn)
    credits_sn = per_subtask_sn * layout.latency_sn / np.maximum(layout.window_sn, 1.0)
    if job.windows.all:
        pace_sn = np.maximum(card_sn, credits_sn)
        for o, blocked in burst_blocking(layout, in_on, out_on, fires_on, used_on, pace_sn).items():
            cpu_on[o] = np.where(blocked > 0, np.maximum(cpu_on[o], used_on[o] + blocked), cpu_on[o])
            if job.windows.by_time_o[o]:
                left_on, blocked_on = held_up(layout, sent_sn, fires_on[o], blocked, o)
                cpu_on = np.maximum(cpu_on, cpu_on * left_on + blocked_on)
    return Load(
        in_on=in_on,
        out_on=out_on,
        window_on=window_on,
        fires_on=fires_on,
        groups_on=groups_on,
        bursts_on=bursts_on,
        service_on=service_on,
        line_s_on=line_s_on,
        line_scv_on=line_scv_on,
        busy_on=busy_on,
        used_on=used_on,
        speed_on=speed_on,
        cpu_on=cpu_on,
        card_sn=card_sn,
        credits_sn=credits_sn,
        cpu_hn=layout.by_host(busy_cn * layout.slow_cn * layout.count_cn) / job.places.capacity_h[:, None],
        card_hn=card_hn,
        cells=cells,
    )


def most_used(layout: Layout, found: Load) -> np.ndarray:
    """Largest share of its time for which a task of an operator works. [O, N]"""
    if found.cells is None:
        return np.asarray(np.minimum(layout.tasks(found.busy_on) / found.speed_on, 1.0))
    most_on = layout.worst(np.where(layout.here_cn, found.cells.busy_cn / found.cells.speed_cn, 0.0))
    return np.asarray(np.minimum(most_on if layout.fusing is None else layout.fusing.spread(most_on), 1.0))


def whole_speed_on(layout: Layout, found: Load) -> np.ndarray:
    """Cores that a subtask gets on the worst socket, with what garbage collection takes of them. [O, N]"""
    speed_on = -layout.worst(-demands(layout, found)[1] * layout.slow_cn)
    return speed_on if layout.fusing is None else layout.fusing.spread(speed_on)


FLOW_FIELDS = ("in_per_s", "out_per_s", "window_records", "fires_per_s", "groups_per_fire", "bursts_per_s")


def stacked(job: JobArrays, flow: Mapping[str, Flow]) -> list[np.ndarray]:
    """Flow through operators, by FLOW_FIELDS. [O, 1 or N] each"""
    return [np.stack([getattr(flow[name], field) for name in job.names]) for field in FLOW_FIELDS]


def scanned_on(job: JobArrays, fires_on: np.ndarray, window_on: np.ndarray, out_on: np.ndarray) -> np.ndarray:
    """Cores that evaluations of windows need: for every record looked at, and every result. [O, N]"""
    return np.asarray(fires_on * window_on * job.costs.scan_o[:, None] + out_on * job.costs.result_o[:, None])


def held_bytes_on(job: JobArrays, in_on: np.ndarray, window_on: np.ndarray, sent_sn: np.ndarray) -> np.ndarray:
    """Bytes of state by key, of key groups, and of what windows hold: window_on records, or accumulators
    (`entries_on`); all subtasks together. [O, N]"""
    rows = zip(job.operators, in_on, strict=True)
    by_key_on = np.stack([each.state_bytes(mine, job.channels.horizon_s) for each, mine in rows])
    group_o = [(key_groups_of(each) or 0) * getattr(each, "state_bytes_per_group", 0.0) for each in job.operators]
    return np.asarray(by_key_on + window_on * entry_bytes_on(job, in_on, sent_sn) + np.array(group_o)[:, None])


def entry_bytes_on(job: JobArrays, in_on: np.ndarray, sent_sn: np.ndarray) -> np.ndarray:
    """Bytes of what windows hold: of a record, or of an accumulator. [O, N]"""
    size_on = np.array(job.costs.held_bytes.mean(in_on, sent_sn) + np.zeros_like(in_on))
    for o, size in job.accumulators.items():
        size_on[o] = size
    return size_on


def entries_on(
    job: JobArrays,
    window_on: np.ndarray,
    groups_on: np.ndarray,
    counted: Mapping[str, np.ndarray],
    since_on: np.ndarray | None = None,
) -> np.ndarray:
    """What the windows of operators hold: window_on records, or their copies, or accumulators. [O, N]

    groups_on: distinct groups in a full window. counted: as in `offered_flow`. since_on: None: just before evaluations;
    else on average, and of copies and accumulators only those that changed in such a part of a window, in its own unit.
    """
    held_on = window_on
    for o, holds in job.entries.items():
        operator, name = job.operators[o], job.names[o]
        assert isinstance(operator, Windowed)
        mixing = Mixing(parallelism=counted.get(name, 1.0), spread=job.channels.spreads.get(name))
        since_n = None if since_on is None else since_on[o]
        found_n = operator.entries(window_on[o], groups_on[o], mixing, holds, since_n)
        held_on = held_on + np.zeros_like(found_n)
        held_on[o] = found_n
    return held_on


def windows_on(layout: Layout, window_on: np.ndarray) -> np.ndarray:
    """What the windows of all subtasks hold, from what one window holds. [O, 1 or N]"""
    slides = list(layout.job.windows.slides)
    if not any(layout.job.names[o] in layout.counted for o in slides):
        return window_on
    each_on = np.ones((len(layout.job.names), layout.size))
    each_on[slides] = layout.subtasks_on[slides]
    return window_on * each_on


def memory(layout: Layout, flow: Mapping[str, Flow]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Slow-down by garbage collection [H, N]; used share of RAM [H, N], 0 of unused hosts; and whether a plan crashes
    [N].

    A host holds the engine, the windows' contents and the state of key groups.
    """
    job, engine = layout.job, layout.job.deployment.engine
    law = engine.memory
    in_on, out_on, window_on, _, groups_on, _ = stacked(job, flow)
    entries = windows_on(layout, entries_on(job, window_on, groups_on, layout.counted))
    held_on = held_bytes_on(job, in_on, entries, layout.carried_sn(out_on))
    ram_hn = job.places.ram_mb_h[:, None]
    heap_cn = (held_on * engine.state_overhead / MEGA)[layout.operator_c] * layout.evenly_cn
    heap_hn = layout.by_host(heap_cn) + law.base_mb
    beside_hn = engine.beside_mb(layout.by_host((held_on / MEGA)[layout.operator_c] * layout.evenly_cn), ram_hn)
    here_hn = layout.by_host(layout.count_cn) > 0
    used_hn = np.where(here_hn, heap_hn / (ram_hn - beside_hn), 0.0)
    reach_hn = np.clip((used_hn - law.onset) / max(law.crash - law.onset, 1e-9), 0.0, 1.0)
    slow_hn = 1.0 + reach_hn * (law.slowdown_at_crash - 1.0)
    shown_hn = np.where(here_hn, (heap_hn + beside_hn) / ram_hn, 0.0)
    return slow_hn, shown_hn, np.asarray((used_hn >= law.crash).any(axis=0))


# throttling ----------------------------------------------------------------------------------------------------------
# Sources are slowed until nothing is overloaded: each ingests a share of its offered rate.
#
# Pressure travels upstream: an operator has to be slowed down by the worst of its own pressure and that of its output
# streams and consumers. Where several streams meet, only those above the fair level are slowed
# (`twin.rates.channels`).


ROUNDS = 40
"""Most rounds of the search for the rates."""
CLOSE = 1e-7
"""Distance of a source's pressure from 1, in its log, at which its rate counts as found."""
RESTART = 10
"""Rounds without success after which what was learnt of the Jacobian is forgotten."""
RELAXED, SLACK = 60, 1e-3
"""Rounds of a slower search for plans whose root was not found by then; the pressure, in its log, that may be left."""
FARTHEST, LEAST = 2.0, -30.0
"""Longest step, and lowest share, in logs."""


def throttle(layout: Layout, offered: Load, stalls_s: Mapping[str, np.ndarray]) -> np.ndarray:
    """Share of its offered rate that each source ingests. [sources, N]

    A source either ingests all it is offered and feels a pressure of at most 1, or feels exactly 1. Both are the root
    of max(log share, log pressure), one equation a source, found by Broyden's method for all plans together: joins make
    loads grow faster than the rates, and what one source feels depends on the others.
    """
    job = layout.job
    names = [job.names[o] for o in job.sources]
    found = np.ones((len(names), layout.size))
    active = np.asarray((offered.pressure(job) > 1.0).any(axis=0))
    if not active.any():
        return found
    part, where = layout.select(active), np.flatnonzero(active)
    rates = np.array([job.offered_per_s[name] for name in names])[:, None]
    stalled = {name: each[active] for name, each in stalls_s.items()}
    share = np.zeros((len(names), part.size))  # logs of shares
    inverse = np.tile(np.eye(len(names))[:, :, None], part.size)  # inverse of the Jacobian
    moved = off = np.zeros_like(share)
    worst = felt(layout, offered)[0][job.sources][:, active]
    for turn in range(ROUNDS):
        if turn:
            flow = flow_at(job, dict(zip(names, rates * np.exp(share), strict=True)), stalled, counted=part.counted)
            worst = felt(part, load(part, flow))[0][job.sources]
        off, before = np.maximum(share, np.log(np.maximum(worst, 1e-12))), off
        done = np.abs(off).max(axis=0) < CLOSE
        if turn:
            inverse = _broyden(inverse, moved, off - before)
            lost = np.abs(moved).max(axis=0) < 1e-12 if turn % RESTART else np.ones(part.size, dtype=bool)
            inverse = np.where(lost, 0.5 * np.eye(len(names))[:, :, None], inverse)
        if turn == ROUNDS - 1 or done.mean() > 0.2:
            found[:, where] = np.exp(share)
            keep = ~done
            if not keep.any():
                break
            if turn == ROUNDS - 1:
                left = {name: each[keep] for name, each in stalled.items()}
                found[:, where[keep]] = _relaxed(part.select(keep), left, share[:, keep])
                break
            part, where = part.select(keep), where[keep]
            stalled = {name: each[keep] for name, each in stalled.items()}
            done = done[keep]
            share, off, inverse = share[:, keep], off[:, keep], inverse[:, :, keep]
        ahead = np.clip(share - np.clip(np.einsum("rsn,sn->rn", inverse, off), -FARTHEST, FARTHEST), LEAST, 0.0)
        ahead = np.where(done, share, ahead)  # other plans of the same call must make no difference
        moved, share = ahead - share, ahead
    return found


def _relaxed(part: Layout, stalled: Mapping[str, np.ndarray], share: np.ndarray) -> np.ndarray:
    """Shares of plans whose root was not found, from their last guess: half a step towards it each time, and at the end
    all sources slowed alike, so that nothing is overloaded whatever else is wrong. [sources, N]"""
    job = part.job
    names = [job.names[o] for o in job.sources]
    rates = np.array([job.offered_per_s[name] for name in names])[:, None]

    def worst(share: np.ndarray) -> np.ndarray:
        flow = flow_at(job, dict(zip(names, rates * np.exp(share), strict=True)), stalled, counted=part.counted)
        return np.log(np.maximum(felt(part, load(part, flow))[0][job.sources], 1e-12))

    share = np.clip(share, LEAST, 0.0)
    for _ in range(RELAXED):
        share = np.clip(share - 0.5 * worst(share), LEAST, 0.0)
    for _ in range(RELAXED):
        over = worst(share).max(axis=0)
        if (over <= SLACK).all():
            break
        share = np.maximum(share - np.where(over > SLACK, over, 0.0), LEAST)
    return np.exp(share)


def _broyden(inverse: np.ndarray, moved: np.ndarray, changed: np.ndarray) -> np.ndarray:
    """Inverse Jacobian [S, S, N] after a step `moved` changed the residual by `changed` [S, N]."""
    expected = np.einsum("rsn,sn->rn", inverse, changed)
    along = np.einsum("rn,rsn->sn", moved, inverse)
    scale = np.einsum("rn,rn->n", moved, expected)
    usable = np.abs(scale) > 0.1 * np.einsum("rn,rn->n", moved, moved)
    return inverse + np.where(usable, (moved - expected)[:, None] * along[None] / np.where(usable, scale, 1.0), 0.0)


# the state that is reached -------------------------------------------------------------------------------------------
# State of plans once sources are held back, and the results that a run shows of it.


@dataclass(frozen=True, slots=True)
class Reached:
    """State of N plans, offered and reached. share: of its offered rate that each source ingests. [sources, N]"""

    layout: Layout
    offered: Load
    reached: Load
    share: np.ndarray


class Results(NamedTuple):
    """Results at the sinks: number a second over the measured time [N]; their ages since ingestion and generation, in
    seconds [2, N]; and their delay [N], as `twin.metrics.Metrics.result_delay_s`."""

    per_s: np.ndarray
    ages_s: np.ndarray
    delay_s: np.ndarray


LOGISTIC = math.sqrt(3.0) / math.pi
"""Scale of a logistic distribution over its standard deviation."""


def results(state: Reached, ages: Ages, measured: MeasuredSpan) -> Results:
    """Results of a run, without those that its empty start lacks."""
    job = state.layout.job
    answered = np.array([[job.calling[o].answered if o in job.calling else 1.0] for o in job.sinks])
    arriving = ((state.offered.in_on * ages.fills.taken_on)[job.sinks] * answered).sum(axis=0)
    come = come_by(ages.results_s[2], ages.spread_s, measured)
    return Results(np.asarray(arriving * come), ages.results_s[:2], ages.delay_s)


def come_by(lag_s: np.ndarray, spread_s: np.ndarray, measured: MeasuredSpan) -> np.ndarray:
    """Share of the steady output that comes in the measured time of a run whose results are late by logistic times, of
    that mean and standard deviation. [N]

    By t, results have come for t less the lag, if positive: on average b log(1 + exp((t - lag) / b)) seconds, for the
    scale b. That is t less the mean lag, if positive, and b log(1 + exp(-|t - lag| / b)).
    """
    scale_s = np.maximum(LOGISTIC * spread_s, 1e-9)
    before, by = (scale_s * np.log1p(np.exp(-np.abs(at_s - lag_s) / scale_s)) for at_s in measured)
    return np.asarray(held_back(lag_s, measured) + (by - before) / measured.length_s)
