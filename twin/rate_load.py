"""How loaded every operator, socket, network card and channel is under N plans at once, at given source rates.

Demands are in reference cores (CPU seconds a second); a pressure above 1 means that the operator cannot keep up. Work
is spread evenly over an operator's replicas, but for the pressure on the busiest where keys are skewed. Axes are those
of `twin.rate_layout`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np

from twin.keys import key_groups_of
from twin.rate_bursts import burst_blocking
from twin.rate_layout import MEGA, Job, Layout
from twin.rates import Flow, flows

FULL = 0.995
"""Utilisation from which a socket counts as full."""


@dataclass(frozen=True, slots=True)
class Load:
    """The state of N plans at some source rates. The first six are those of `twin.rates.Flow`, [O, N].

    service_on: CPU time of an input tuple, window evaluations apart. busy_on: demand of one replica, in cores.
    speed_on: cores that a replica can get beside the others on its socket. cpu_on: utilisation of what an operator
    computes on; nic_sn: of the network cards and links that a stream crosses; credits_sn: of a channel's credits by
    tuples in flight. cpu_hn, nic_hn: utilisation of a host's cores and of its network card.
    """

    in_on: np.ndarray
    out_on: np.ndarray
    window_on: np.ndarray
    fires_on: np.ndarray
    groups_on: np.ndarray
    bursts_on: np.ndarray
    service_on: np.ndarray
    busy_on: np.ndarray
    speed_on: np.ndarray
    cpu_on: np.ndarray
    nic_sn: np.ndarray
    credits_sn: np.ndarray
    cpu_hn: np.ndarray
    nic_hn: np.ndarray

    @property
    def stream_sn(self) -> np.ndarray:
        """Pressure on the streams: the highest utilisation among cards, links and credits. [S, N]"""
        return np.maximum(self.nic_sn, self.credits_sn)

    def with_part(self, rows: np.ndarray, part: Load) -> Load:
        """The same with the plans in `rows` (a mask [N]) as in another one, which has these alone."""
        columns = {}
        for field in fields(Load):
            mine = getattr(self, field.name)
            whole = np.broadcast_to(mine, (len(mine), len(rows))).copy()
            whole[:, rows] = getattr(part, field.name)
            columns[field.name] = whole
        return Load(**columns)


def pressure(job: Job, load: Load) -> np.ndarray:
    """The highest utilisation among what an operator depends on: its CPU and its output streams. [O, N]"""
    worst_on, stream_sn = load.cpu_on.copy(), load.stream_sn
    for s, producer in enumerate(job.producer_s):
        np.maximum(worst_on[producer], stream_sn[s], out=worst_on[producer])
    return worst_on


def offered_flow(job: Job) -> dict[str, Flow]:
    """What flows if every source keeps up; arrays of one entry, as it is the same under all plans."""
    return flow_at(job, {name: np.array([rate]) for name, rate in job.offered_per_s.items()})


def flow_at(
    job: Job, rates: Mapping[str, np.ndarray], stalls_s: Mapping[str, np.ndarray] | None = None
) -> dict[str, Flow]:
    """What flows at given rates of the sources. stalls_s: see `twin.rates.Channels`."""
    channels = job.channels if not stalls_s else job.channels._replace(stalls_s=stalls_s)
    return flows(job.deployment.query, rates, True, channels)


def load(layout: Layout, flow: Mapping[str, Flow], slowdown_on: np.ndarray) -> Load:
    """Adds up what a flow asks of every resource. flow: arrays of N entries, or of one for all plans.

    slowdown_on: factor on an operator's CPU work by memory pressure. [O, N]
    """
    job, engine = layout.job, layout.job.deployment.engine
    in_on, out_on, window_on, fires_on, groups_on, bursts_on = (
        np.stack([getattr(flow[name], field) for name in job.names]) for field in FLOW_FIELDS
    )
    sent_sn = out_on[job.producer_s] * layout.copies_sn
    work_on = in_on * job.service_o[:, None] + np.zeros(layout.size)
    remote_sn = layout.remote_sn * job.bytes_s[:, None] * 1e-9
    written_sn = remote_sn * sent_sn * engine.serialise_ns_per_byte
    read_sn = remote_sn * out_on[job.producer_s] * engine.deserialise_ns_per_byte
    for s, (producer, consumer) in enumerate(zip(job.producer_s, job.consumer_s, strict=True)):
        work_on[producer] += written_sn[s]
        work_on[consumer] += read_sn[s]
    work_on *= slowdown_on
    service_on = np.where(in_on > 0, work_on / np.maximum(in_on, 1e-12), job.service_o[:, None] * slowdown_on)
    if job.windowed:
        scanned_on = fires_on * window_on * job.scan_o[:, None] + out_on * job.result_o[:, None]
        work_on = work_on + scanned_on * slowdown_on
    busy_on = work_on / layout.replicas_on
    cpu_on, speed_on = _share_sockets(layout, busy_on)
    nic_sn, nic_hn = _nics(layout, sent_sn)
    per_replica_sn = sent_sn / layout.replicas_on[job.consumer_s]
    credits_sn = per_replica_sn * layout.latency_sn / engine.channel_tuples
    if job.windowed:
        used_on = busy_on / speed_on
        pace_sn = np.maximum(nic_sn, credits_sn)
        for o, blocked in burst_blocking(layout, in_on, out_on, fires_on, used_on, pace_sn).items():
            cpu_on[o] = np.where(blocked > 0, np.maximum(cpu_on[o], used_on[o] + blocked), cpu_on[o])
    return Load(
        in_on,
        out_on,
        window_on,
        fires_on,
        groups_on,
        bursts_on,
        service_on,
        busy_on,
        speed_on,
        cpu_on,
        nic_sn,
        credits_sn,
        layout.by_host(busy_on[layout.operator_c] * layout.count_cn) / job.capacity_h[:, None],
        nic_hn,
    )


FLOW_FIELDS = ("in_per_s", "out_per_s", "window_tuples", "fires_per_s", "groups_per_fire", "bursts_per_s")


def _share_sockets(layout: Layout, busy_on: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pressure of the CPU, and the cores a replica can get; both of an operator's worst socket. [O, N]

    Sockets are shared max-min fairly, at most one core a task: on a full socket only the tasks above the fair level
    feel it, and what they feel is the demand on the whole socket. A task can get that level there; on other sockets,
    what the demands of its neighbours leave (a good approximation of processor sharing for the wait).
    """
    own_cn = busy_on[layout.operator_c]
    capacity_cn = layout.capacity_cn
    total_cn = layout.on_sockets(own_cn * layout.count_cn)
    level_cn = fair_level(own_cn, layout.neighbours, capacity_cn)
    full_cn = total_cn / capacity_cn
    crowded_on = busy_on if layout.crowding_on is None else busy_on * layout.crowding_on
    alone_cn = crowded_on[layout.operator_c] / np.minimum(1.0, capacity_cn)
    felt_cn = np.where(own_cn >= level_cn * 0.999, full_cn, np.minimum(full_cn, own_cn / level_cn))
    left_cn = np.clip(np.where(full_cn > FULL, level_cn, capacity_cn - (total_cn - own_cn)), 1e-6, 1.0)
    used_cn = np.maximum(alone_cn, felt_cn)
    if not layout.single:
        used_cn, left_cn = np.where(layout.here_cn, used_cn, 0.0), np.where(layout.here_cn, left_cn, np.inf)
    return layout.worst(used_cn), -layout.worst(-left_cn)


def fair_level(own_cn: np.ndarray, neighbours: np.ndarray, capacity_cn: np.ndarray) -> np.ndarray:
    """Cores that a task gets at most, so that a full socket is just used up (water filling). [C, N]

    With demands ascending, it is the maximum over tasks of what those below leave, divided among the others.
    neighbours: replicas of cell d if it is on the socket of cell c, else 0 [C, D, N].
    """
    cells = np.arange(len(own_cn))
    smaller = neighbours * (own_cn[None] < own_cn[:, None])
    taken_cn = np.einsum("cdn,dn->cn", smaller, own_cn)
    others_cn = np.maximum(neighbours.sum(axis=1) - smaller.sum(axis=1), 1e-9)
    left_cn = np.where(neighbours[cells, cells] > 0, (capacity_cn - taken_cn) / others_cn, 0.0)
    return np.maximum(((neighbours > 0) * left_cn[None]).max(axis=1), 1e-9)


def _nics(layout: Layout, sent_sn: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The highest utilisation among the cards and links that a stream crosses [S, N]; of all cards [H, N]."""
    job = layout.job
    bytes_sn = sent_sn * job.bytes_s[:, None] + np.zeros(layout.size)
    leaving_cn = np.zeros(layout.count_cn.shape)
    for s, producer in enumerate(job.producer_s):
        leaving_cn[layout.cells(producer)] += bytes_sn[s] * layout.leaving[s]
    used_hn = layout.by_host(leaving_cn) / job.bandwidth_h[:, None]
    used_cn = layout.of_hosts(used_hn)
    cards = [
        np.where(layout.leaving[s] > 0, used_cn[layout.cells(producer)], 0.0).max(axis=0)
        for s, producer in enumerate(job.producer_s)
    ]
    if layout.links is None:
        return np.stack(cards), used_hn
    return np.maximum(np.stack(cards), layout.links.utilisation_sn(bytes_sn)), used_hn


def memory(layout: Layout, flow: Mapping[str, Flow]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The slow-down by garbage collection [O, N]; used share of RAM [H, N], 0 of unused hosts; which plans crash [N].

    A host holds the engine, the windows' contents and the state of key groups.
    """
    job, law = layout.job, layout.job.deployment.engine.memory
    state_bytes = [(key_groups_of(each) or 0) * getattr(each, "state_bytes_per_group", 0.0) for each in job.operators]
    window_on = np.stack([flow[name].window_tuples for name in job.names])
    held_on = window_on * job.held_bytes_o[:, None] + np.array(state_bytes)[:, None]
    held_cn = (held_on * law.object_overhead / MEGA)[layout.operator_c] * layout.share_cn
    used_hn = (layout.by_host(held_cn) + law.base_mb) / job.ram_h[:, None]
    used_hn = np.where(layout.by_host(layout.count_cn) > 0, used_hn, 0.0)
    reach_hn = np.clip((used_hn - law.onset) / max(law.crash - law.onset, 1e-9), 0.0, 1.0)
    slowed_cn = layout.of_hosts(1.0 + reach_hn * (law.slowdown_at_crash - 1.0))
    slowdown_on = layout.worst(slowed_cn if layout.single else np.where(layout.here_cn, slowed_cn, 1.0))
    return slowdown_on, used_hn, np.asarray((used_hn >= law.crash).any(axis=0))
