"""Arrays of a job, from which the loads and ages of all of its plans are computed.

Letters at the end of a name are its axes, as in `twin.rates.layout`: o components, s edges, l sockets, h hosts; k is a
socket of the host in question, counted from 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import combinations
from typing import NamedTuple, Self

import numpy as np

from twin.calls import Calls
from twin.deployment import Deployment
from twin.forms import executed_s
from twin.job import Component, Edge, Job
from twin.kinds.flow import Disorder
from twin.kinds.mechanism import Reading
from twin.query import AnyOperator, Query, Windowed
from twin.rates.bursts import SourcePeaks
from twin.rates.sockets import Places
from twin.scenario import Scenario
from twin.workload import group_count


class Inputs(NamedTuple):
    """Amount that belongs to every input record, such as seconds or bytes.

    mean_o: by operator, if its streams have equal rates. beyond_s: amount of a record of a stream beyond this mean of
    its consumer; 0 of an only input. ends: (stream, consumer) of streams where that is not 0.
    """

    mean_o: np.ndarray
    beyond_s: np.ndarray
    ends: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, job: Job, each: Callable[[Edge], float], mean: Callable[[Component], float]) -> Self:
        """Makes the amounts of a job. each: of a record of a stream. mean: of an input record at equal rates of all
        streams."""
        mean_o = np.array([mean(component) for component in job.components])
        beyond_s = np.array([each(edge) - mean_o[edge.consumer] for edge in job.edges])
        ends = ((s, job.edges[s].consumer) for s in np.flatnonzero(beyond_s).tolist())
        return cls(mean_o, beyond_s, tuple(ends))

    def total(self, in_on: np.ndarray, sent_sn: np.ndarray) -> np.ndarray:
        """Sum over all records of a second, at these rates of inputs and streams, with all copies. [O, N]"""
        total_on = np.asarray(in_on * self.mean_o[:, None])
        for s, consumer in self.ends:
            total_on[consumer] += sent_sn[s] * self.beyond_s[s]
        return total_on

    def mean(self, in_on: np.ndarray, sent_sn: np.ndarray) -> np.ndarray:
        """Mean over the input records, also at rates of 0; see `total`. [O, N]"""
        mean_on = np.broadcast_to(self.mean_o[:, None], in_on.shape).copy()
        for s, consumer in self.ends:
            mean_on[consumer] += self._share(in_on, sent_sn, s, consumer) * self.beyond_s[s]
        return mean_on

    def _share(self, in_on: np.ndarray, sent_sn: np.ndarray, s: int, consumer: int) -> np.ndarray:
        return np.asarray(sent_sn[s] / np.maximum(in_on[consumer], 1e-12))


def awaited(deployment: Deployment, name: str) -> list[AnyOperator]:
    """Sources whose watermarks an operator over event time waits for."""
    query = deployment.query
    operator = query.operator(name)
    if not operator.needs_event_time or operator.hands_over not in ("windows", "results"):
        return []
    return [each for each in map(query.operator, sorted(query.ancestors(name))) if each.is_source]


def disorder_of(source: AnyOperator, every_s: float | None) -> Disorder:
    """Disorder of what a source reads. every_s: between watermarks, unless the source says so itself."""
    reads = source.mechanism
    assert isinstance(reads, Reading)
    every_s = reads.watermark_interval_s or every_s or 0.0
    return Disorder(reads.disorder_s, reads.slack_s, every_s, np.inf if reads.idle_s is None else reads.idle_s)


ANNOUNCED = 4000
"""Watermarks of all subtasks together from which their combined rate is measured; it is rounded to two digits."""


def among_marks(job: Job, name: str, calls: Calls) -> Calls:
    """Calls with the watermarks that come between their records, if there is event time behind them. Those that leave
    at the ends of windows, and not in time, are too few to count."""
    query = job.deployment.query
    if not any(each.needs_event_time and name in query.ancestors(each.name) for each in query.operators):
        return calls
    every_s = job.engine.watermark_interval_s
    reading = [
        (job.rates[source.name].out_per_s / job.component(source.name).parallelism, disorder_of(source, every_s))
        for source in query.sources
        for _ in range(1 if _all_paired(query, source.name, name) else job.component(source.name).parallelism)
        if source.name in query.ancestors(name)
    ]
    if not all(each_per_s > 0.0 and disorder.every_s for each_per_s, disorder in reading):
        return calls
    return replace(calls, marks_per_s=float(f"{_combined_per_s(reading):.2g}"))


def _all_paired(query: Query, source: str, name: str) -> bool:
    """Whether one subtask of a source alone sends to each of an operator's."""
    ways = [each for each in query.inputs(name) if source in (each.producer, *query.ancestors(each.producer))]
    return all(query.partitioning(way).paired for way in ways) and all(
        way.producer == source or _all_paired(query, source, way.producer) for way in ways
    )


def _combined_per_s(reading: Sequence[tuple[float, Disorder]]) -> float:
    """Watermarks a second of an operator that is as far as the least of its sources' subtasks, by simulation. reading:
    records a second, and the disorder, of each subtask, whose watermarks have a phase of their own.

    No record of the last x seconds of event time has come with the probability exp(-rate A), where A is the integral
    of min(1, t / disorder) up to x: so the newest is older by the x at which rate A is exponential.
    """
    rng, count = np.random.default_rng(0), max(20, ANNOUNCED // len(reading))
    end_s = count * min(each.every_s for _, each in reading)
    told: list[tuple[float, int, float]] = []
    for k, (each_per_s, each) in enumerate(reading):
        at_s = np.arange(rng.random() * each.every_s, end_s, each.every_s)
        gaps_s = rng.exponential(1.0 / each_per_s, len(at_s))
        within = gaps_s < each.disorder_s / 2.0
        ages_s = np.where(within, np.sqrt(2.0 * each.disorder_s * gaps_s), gaps_s + each.disorder_s / 2.0)
        newest_s = np.maximum.accumulate(at_s - ages_s - each.slack_s)
        told += zip(at_s.tolist(), [k] * len(at_s), newest_s.tolist(), strict=True)
    far, least, advances = np.full(len(reading), -np.inf), -np.inf, 0
    for _, k, now_s in sorted(told):
        far[k] = now_s
        if (now := far.min()) > least:
            least, advances = now, advances + 1
    return advances / end_s


MANY = 10**9
"""Number of subtasks that is higher than that of any plan."""


class Costs(NamedTuple):
    """Costs of an input record, by operator: service: CPU seconds; held_bytes: in a window; memory: bytes of local
    traffic. scv_o: squared coefficient of variation of services. scan_o, result_o: CPU seconds for each record that an
    evaluation looks at, and for each result. Sizes of a record, by stream: bytes_s: bytes; lines_s: cache lines;
    buffer_s: records that fit into a buffer; spans_s: buffers that a record takes up."""

    service: Inputs
    held_bytes: Inputs
    memory: Inputs
    scv_o: np.ndarray
    scan_o: np.ndarray
    result_o: np.ndarray
    bytes_s: np.ndarray
    lines_s: np.ndarray
    buffer_s: np.ndarray
    spans_s: np.ndarray

    @classmethod
    def of(cls, job: Job) -> Self:
        """Makes the costs of a job."""
        components, edges = job.components, job.edges
        return cls(
            service=Inputs.of(
                job,
                lambda edge: edge.service_s + executed_s(job, components[edge.consumer].operator),
                lambda component: component.service_s + executed_s(job, component.operator),
            ),
            held_bytes=Inputs.of(job, lambda edge: edge.bytes_each, lambda component: component.bytes_in),
            memory=Inputs.of(job, lambda edge: edge.memory_bytes, lambda component: component.memory_bytes),
            scv_o=np.array([each.service_scv for each in components]),
            scan_o=np.array([each.scan_s for each in components]),
            result_o=np.array([each.result_s for each in components]),
            bytes_s=np.array([components[each.producer].bytes_out for each in edges]),
            lines_s=np.array([job.engine.lines_of(each.bytes_each) for each in edges]),
            buffer_s=np.array([float(job.engine.batch_of(each.bytes_each)) for each in edges]),
            spans_s=np.array([job.engine.spans_of(each.bytes_each) for each in edges]),
        )


class Dealing(NamedTuple):
    """Dealing of streams to subtasks.

    By stream: broadcast_s: all subtasks get all records; forward_s: each subtask gets those of its partner; in_turn_s:
    one subtask after the other; drops_s: records that find no room are lost; to_one_s: all that a producer subtask
    sends comes to each place that gets any of it; batch_s: most records that leave together. By operator: shared_o: its
    subtasks take from one queue; akin_o: some of its streams stem from the same records; fed_o: most subtasks that get
    any records: of keys with few values, as many as values.
    """

    broadcast_s: list[bool]
    forward_s: list[bool]
    in_turn_s: list[bool]
    drops_s: list[bool]
    to_one_s: list[bool]
    batch_s: list[int]
    shared_o: list[bool]
    akin_o: list[bool]
    fed_o: np.ndarray

    @classmethod
    def of(cls, job: Job) -> Self:
        """Makes the dealing of a job's streams."""
        edges, streams_o = job.edges, [list(each.inputs) for each in job.components]
        names = [each.name for each in job.components]
        shared_o = [job.one_queue(name) for name in names]
        in_turn_s = [each.how.in_turn and not each.how.paired for each in edges]
        flushes = job.engine.flush_s is not None
        batch_s = [job.engine.batch_of(each.bytes_each) if flushes and each.blocks else 1 for each in edges]
        return cls(
            broadcast_s=[each.how.copies for each in edges],
            forward_s=[each.how.paired for each in edges],
            in_turn_s=in_turn_s,
            drops_s=[not each.blocks for each in edges],
            to_one_s=[
                each.how.copies or each.how.paired or each.how.whole or shared_o[each.consumer] for each in edges
            ],
            batch_s=batch_s,
            shared_o=shared_o,
            akin_o=[_akin(job, [names[edges[s].producer] for s in streams]) for streams in streams_o],
            fed_o=np.array([_most_fed(job, name) for name in names]),
        )


def _most_fed(job: Job, name: str) -> float:
    ways = [edge.how for edge in job.inputs(name)]
    if ways and all(way.whole and not way.copies for way in ways):
        return 1.0
    if not ways or not all(way.by_key and way.keeps_keys for way in ways):
        return np.inf
    query = job.deployment.query
    return np.inf if group_count(query, name, MANY) is not None else float(query.operator(name).values(MANY))


def _akin(job: Job, producers: list[str]) -> bool:
    if len(producers) < 2:
        return False
    before = [{name, *job.deployment.query.ancestors(name)} for name in producers]
    return any(one & other for one, other in combinations(before, 2))


class Windows(NamedTuple):
    """Windows of a job. all: numbers of the operators with one; slides: of count windows, by number; by_time_o: whether
    an operator has one over time. piece_o: length in seconds of the partial results that come, 0 for none; awaited_o:
    numbers of the sources that an operator over event time waits for, and their disorder."""

    all: list[int]
    slides: dict[int, float]
    by_time_o: list[bool]
    piece_o: list[float]
    awaited_o: list[dict[int, Disorder]]

    @classmethod
    def of(cls, job: Job) -> Self:
        """Makes the windows of a job."""
        components, edges = job.components, job.edges
        windows = {o: each.operator.window for o, each in enumerate(components) if isinstance(each.operator, Windowed)}
        pieces = [[components[edges[s].producer].operator.piece_s for s in each.inputs] for each in components]
        names = [each.name for each in components]
        return cls(
            all=list(windows),
            slides={o: float(window.slide) for o, window in windows.items() if window.policy == "count"},
            by_time_o=[o in windows and windows[o].policy == "time" for o in range(len(components))],
            piece_o=[max(each, default=0.0) for each in pieces],
            awaited_o=[
                {
                    job.number[each.name]: disorder_of(each, job.engine.watermark_interval_s)
                    for each in awaited(job.deployment, name)
                }
                for name in names
            ],
        )


class JobArrays:
    """Arrays that all plans of a job have in common: its graph, and places, costs, dealing and windows."""

    def __init__(self, job: Job, horizon_s: float = np.inf) -> None:
        job = job.apart
        components, edges, workload = job.components, job.edges, job.deployment.workload
        self.deployment = job.deployment
        self.operators = tuple(each.operator for each in components)
        self.names = tuple(each.name for each in components)
        self.streams = tuple(each.stream for each in edges)
        self.producer_s = [each.producer for each in edges]
        self.consumer_s = [each.consumer for each in edges]
        self.hows = [each.how for each in edges]
        self.share_s = np.array([each.share for each in edges])
        self.inputs = [list(each.inputs) for each in components]
        self.outputs = [list(each.outputs) for each in components]
        self.sources = [job.number[each.name] for each in job.sources]
        self.sinks = [job.number[each.name] for each in job.query.result_sinks]
        self.places = Places.of(job.deployment.cluster)
        self.costs = Costs.of(job)
        self.dealing = Dealing.of(job)
        self.windows = Windows.of(job)
        self.gain_o = np.array([each.gain for each in self.operators])
        self.multiplies = bool((self.gain_o > 1.0).any())
        self.calling = {o: calls for o, each in enumerate(self.operators) if (calls := each.calls) is not None}
        self.calling = {o: among_marks(job, self.names[o], calls) for o, calls in self.calling.items()}
        self.passed = [self._passed(o) for o in range(len(self.operators))]
        sizes = {o: job.engine.accumulator_bytes_of(each) for o, each in enumerate(self.operators)}
        sizes |= {o: each.entry_bytes for o, each in enumerate(self.operators) if each.entry_bytes is not None}
        self.accumulators = {o: size for o, size in sizes.items() if size is not None}
        """Bytes of an accumulator, by the number of an operator that keeps them instead of records."""
        held = {o: job.engine.window_state_of(each) for o, each in enumerate(self.operators) if o in self.windows.all}
        self.entries = {o: holds for o, holds in held.items() if holds != "records"}
        """What a window holds, by the number of an operator whose windows hold other than each record once."""
        self._job = job
        self.channels = job.channels._replace(horizon_s=horizon_s)
        self.peaks = SourcePeaks(job).mixed()
        """Peaks of the input of every operator. [O] each"""
        scenario = self.deployment if isinstance(self.deployment, Scenario) else None
        self.checkpoints = None if scenario is None else scenario.checkpoints
        noise, noisy = job.engine.noise, scenario is None or scenario.run.noise
        pause_s = noise.gc_pause_s if noisy else 0.0
        self.pauses_s = pause_s, pause_s + (noise.gc_interval_s or 1.0)
        """Length of a collector's pause, and mean time from the beginning of one to the next; (0, 1) for none."""
        self.offered_per_s = {name: law.mean_rate_per_s for name, law in workload.arrivals.items()}
        self.arrival_scv_o = np.ones(len(components))
        for o in self.sources:
            self.arrival_scv_o[o] = float(workload.arrivals[self.names[o]].law != "constant")
        """Squared coefficient of variation of gaps between arrivals; all but constant laws count as Poisson. [O]"""

    @cached_property
    def offered_sent_s(self) -> np.ndarray:
        """Records a second on every stream if every source keeps up and every operator has one subtask. [S]"""
        out_on = np.stack([self._job.offered_flow[name].out_per_s for name in self.names])
        return self.sent_sn(out_on)[:, 0]

    @cached_property
    def subtasks_count(self) -> list[int]:
        """Operators whose flow depends on their number of subtasks: own count windows or batches, copies, groups on
        several."""
        spread = {name for name, each in self.channels.spreads.items() if each.places > 1.0}
        copied = {consumer for s, consumer in enumerate(self.consumer_s) if self.dealing.broadcast_s[s]}
        batched = {o for o, operator in enumerate(self.operators) if operator.by_subtask}
        spread_o = {o for o, name in enumerate(self.names) if name in spread}
        return sorted({*self.windows.slides, *copied, *batched, *spread_o})

    def _passed(self, o: int) -> np.ndarray | None:
        """Whether the records of each input leave in results; None: all do. [K]"""
        parts = np.array([self.operators[o].passed_from(self.streams[s].side) for s in self.inputs[o]])
        return None if (parts == 1.0).all() else parts

    def sent_sn(self, out_on: np.ndarray) -> np.ndarray:
        """Records a second on every stream, from what operators emit; the copies of a broadcast count once. [S, N]"""
        return np.asarray(out_on[self.producer_s] * self.share_s[:, None])
