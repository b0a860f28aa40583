"""How old results are when they arrive, added up along the streams from formulas.

Ages are kept as [3, N]: since ingestion (row 0), since generation at the broker (row 1), and the lag of the results
behind a run that starts empty (row 2): what a run of H seconds lacks of H seconds' steady output.

* An operator adds its service time, and the wait of an M/G/1 queue (Pollaczek-Khinchine) at the speed that its socket
  can give it beside the others; of replicas with a shared queue, that of M/M/c by Allen and Cunneen.
* A saturated operator, and all upstream of it, add a full channel: its credits over the rate of the stream.
* A stream between hosts adds the producer's latency, or that of all links on its route, and the transmission.
* A window adds the age of the oldest involved tuple at its evaluation. Aggregates: of the oldest of n tuples of one
  group, n s / (n + 1) in a time window of s seconds, (n (w + 1) / (n + 1) - 1) gaps in a count window of w tuples.
  Joins: of the oldest of tuples drawn at random from the window, one a side, plus the older side's age.
* An evaluation emits its results one after another: half the burst waits, here or at the slowest operator after it.
* The lag grows by all of these but full channels, and by the windows only as they start: a tumbling time window by
  its length (the last one ends with the run), others by half a slide, and joins by what sliding windows lack until
  they are first full.
* A source that ingests a share f of what is offered falls behind by (1 - f) t: its results are (1 - f) H / 2 older on
  average over a run of H seconds. No result of that run is older than H.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import networkx as nx
import numpy as np

from twin.query import Aggregate, Join, Stream, Window
from twin.rate_load import FULL, Layout, Load
from twin.rates import Flow
from twin.theory import mmc_wait_s

RHO_MAX = 0.98


class Ages(NamedTuple):
    """In seconds. results_s: processing, end-to-end and lag of the results over the sinks, [3, N].

    By operator: ages_s [3, N] of what it emits; and of that, channel_s, queue_s and window_s [N] (see RateAnswer).
    blocked [N]: whether its input channels are full.
    """

    results_s: np.ndarray
    ages_s: Mapping[str, np.ndarray]
    channel_s: Mapping[str, np.ndarray]
    queue_s: Mapping[str, np.ndarray]
    window_s: Mapping[str, np.ndarray]
    blocked: Mapping[str, np.ndarray]


def result_ages_s(layout: Layout, found: Load, share: Mapping[str, np.ndarray], horizon_s: float) -> Ages:
    """Ages along the streams, at most the horizon at the sinks.

    found: the load after throttling; share: the ingested share of each source's offered rate.
    """
    query = layout.deployment.query
    blocked = _blocked(layout, found, share)
    none = np.zeros(layout.size)
    ages: dict[str, np.ndarray] = {}
    burst: dict[str, np.ndarray] = {}
    channel: dict[str, np.ndarray] = {}
    queue: dict[str, np.ndarray] = {}
    windows: dict[str, np.ndarray] = {}
    for operator in query.topological:
        name = operator.name
        service, wait = _queue_s(layout, found, name)
        if not query.inputs(name):
            behind = (1.0 - share[name]) * horizon_s / 2.0
            ages[name] = np.stack([service, service + np.where(share[name] < 1.0, behind, wait), service])
            burst[name] = np.ones(layout.size)
            channel[name], queue[name], windows[name] = none, service, none
            continue
        before = [ages[stream.producer] for stream in query.inputs(name)]
        arriving = [
            age + _link_s(layout, found, stream) + _full_channel_s(layout, found, stream, blocked)
            for age, stream in zip(before, query.inputs(name), strict=True)
        ]
        waited = np.where(blocked[name], 0.0, wait)
        batch = np.max([burst[stream.producer] for stream in query.inputs(name)], axis=0)
        bunched = np.maximum(batch - 1.0, 0.0) / 2.0 * service
        through = _through(layout, found, name, arriving)
        queue[name] = service + waited + bunched
        channel[name] = _mixed(found.flow[name], arriving)[0] - _mixed(found.flow[name], before)[0]
        windows[name] = through[0] - _mixed(found.flow[name], arriving)[0]
        ages[name] = through + queue[name]
        burst[name] = _burst(found.flow[name])
    weights = [found.flow[sink.name].in_per_s for sink in query.sinks]
    total = np.maximum(np.sum(weights, axis=0), 1e-12)
    means = np.sum([ages[sink.name] * weight for sink, weight in zip(query.sinks, weights, strict=True)], axis=0)
    every = np.where(total > 1e-12, means / total, ages[query.sinks[0].name])
    return Ages(np.minimum(every, horizon_s), ages, channel, queue, windows, blocked)


def _mixed(flow: Flow, ages: list[np.ndarray]) -> np.ndarray:
    """Mean over the inputs, by their rates. [3, N]"""
    taken = np.maximum(flow.in_per_s, 1e-12)
    return np.asarray(np.sum([age * rate for age, rate in zip(ages, flow.inputs_per_s, strict=True)], axis=0) / taken)


def _queue_s(layout: Layout, found: Load, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Service and mean wait of a tuple. [N] each"""
    scv = layout.deployment.engine.service_scv_of(layout.deployment.query.operator(name))
    service = found.service_s[name] / found.speed[name]
    rho = np.minimum(found.busy_cores[name] / found.speed[name], RHO_MAX)
    query = layout.deployment.query
    if any(query.partitioning(each) == "shared" for each in query.inputs(name)):
        mmc_s = [
            mmc_wait_s(int(c), float(r), float(s)) for c, r, s in zip(layout.replicas[name], rho, service, strict=True)
        ]
        return service, np.array(mmc_s) * (1.0 + scv) / 2.0
    return service, rho / (1.0 - rho) * service * (1.0 + scv) / 2.0


def _blocked(layout: Layout, found: Load, share: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """By operator, whether its input channels are full: it, or something downstream of it, is the bottleneck. [N]"""
    graph = layout.deployment.query.graph
    throttled = np.min(list(share.values()), axis=0) < 1.0 - 1e-3
    tight = {name: throttled & (pressure > FULL) for name, pressure in found.pressure.items()}
    return {
        name: np.any([tight[name], *(tight[below] for below in nx.descendants(graph, name))], axis=0) for name in tight
    }


def _link_s(layout: Layout, found: Load, stream: Stream) -> np.ndarray:
    """Latency, transmission and the wait for the network card and the links. [N]"""
    size = layout.deployment.engine.output_bytes(layout.deployment.query, stream.producer)
    rho = np.minimum(found.nic[stream], RHO_MAX)
    send_h = size / layout.bandwidth_h * (1.0 + rho / (1.0 - rho) / 2.0)[:, None]
    if layout.links is not None:
        sent_s = (layout.leaving_nh(stream) * send_h).sum(axis=1)
        return sent_s + layout.latency_s(stream) + layout.links.transmission_s(layout, stream, size, rho)
    return np.asarray((layout.leaving_nh(stream) * (layout.latency_h + send_h)).sum(axis=1))


def _full_channel_s(layout: Layout, found: Load, stream: Stream, blocked: Mapping[str, np.ndarray]) -> np.ndarray:
    """Wait in a channel without free credits, added to ages but not to the lag. [3, N]"""
    rate = found.flow[stream.producer].out_per_s * layout.copies(stream) / layout.replicas[stream.consumer]
    wait = np.where(blocked[stream.consumer], layout.deployment.engine.channel_tuples / np.maximum(rate, 1e-9), 0.0)
    return np.stack([wait, wait, np.zeros_like(wait)])  # channels fill quickly beside the rate at which they drain


def _through(layout: Layout, found: Load, name: str, arriving: list[np.ndarray]) -> np.ndarray:
    """Ages after the window of an operator, if it has one; [3, N]."""
    operator, flow = layout.deployment.query.operator(name), found.flow[name]
    taken = np.maximum(flow.in_per_s, 1e-12)
    if isinstance(operator, Join):
        size_s, slide_s = _length_s(operator.window, taken)
        sides = len(arriving)
        ages = _oldest_s(arriving, size_s)
        filling_s = sides / (sides + 1.0) * (size_s - slide_s)  # matches grow with that power of the content
        ages[2] = np.max(arriving, axis=0)[2] + _start_s(operator.window, slide_s) + filling_s
        return ages
    mixed = _mixed(flow, arriving)
    if not isinstance(operator, Aggregate):
        return mixed
    size_s, slide_s = _length_s(operator.window, taken)
    of_group = flow.window_tuples / np.maximum(flow.groups_per_fire, 1e-12)
    if operator.window.policy == "time":
        oldest_s = of_group * size_s / (of_group + 1.0)
    else:
        oldest_s = (of_group * (flow.window_tuples + 1.0) / (of_group + 1.0) - 1.0) / taken
    return np.asarray(mixed + np.stack([oldest_s, oldest_s, _start_s(operator.window, slide_s)]))


def _oldest_s(arriving: list[np.ndarray], size_s: np.ndarray) -> np.ndarray:
    """Mean age of the oldest of tuples drawn from each side, that are up to `size_s` older than on arrival. [3, N]"""
    older = np.max(arriving, axis=0)
    if len(arriving) == 2:
        apart = np.abs(arriving[0] - arriving[1])
        return np.asarray(older + size_s / 2.0 + np.maximum(size_s - apart, 0.0) ** 3 / (6.0 * size_s**2))
    ages = older
    for node, weight in zip(*np.polynomial.legendre.leggauss(16), strict=True):  # of P(some tuple is older than that)
        beyond = size_s * (1.0 + node) / 2.0
        below = [np.clip((older - age + beyond) / size_s, 0.0, 1.0) for age in arriving]
        ages = ages + weight / 2.0 * size_s * (1.0 - np.prod(below, axis=0))
    return np.asarray(ages)


def _length_s(window: Window, in_per_s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Size and slide in seconds, at that input rate. [N] each"""
    if window.policy == "time":
        return np.full_like(in_per_s, window.size), np.full_like(in_per_s, window.slide)
    return window.size / in_per_s, window.slide / in_per_s


def _start_s(window: Window, slide_s: np.ndarray) -> np.ndarray:
    return slide_s if window.policy == "time" and window.tumbling else slide_s / 2.0


def _burst(flow: Flow) -> np.ndarray:
    """Tuples that an operator emits at one moment. [N]"""
    return np.where(np.isfinite(flow.bursts_per_s), flow.out_per_s / np.maximum(flow.bursts_per_s, 1e-12), 1.0)
