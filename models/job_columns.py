"""Reads a job for all models: facts known before it runs, as columns of its operators, its hosts and its plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from models.features import NO_WORD, node_type
from twin.deployment import Deployment
from twin.job import Component, Job, compile
from twin.key_skew import KeySkew, zipf_shares
from twin.kinds.basic import Calling
from twin.kinds.flow import OperatorRates
from twin.kinds.windowed import Windowed
from twin.metrics import ESTIMATED, METRICS
from twin.plan import ExecutionPlan
from twin.query import AnyOperator
from twin.rates.bursts import SourcePeaks
from twin.rates.model import RateAnswer, RateModel
from twin.rates.seats import Placements
from twin.scenario import Scenario

# demand --------------------------------------------------------------------------------------------------------------
# Demand beyond mean rates, as a few numbers of each operator: variation of its input and skew of its keys.


@dataclass(frozen=True, slots=True)
class Variation:
    """Variation of the input of one operator; fields have the names of the features that are made of them.

    peak, peak_share, peak_s: height, share and mean seconds of its `Peaks`. hottest: share of the input in the most
    frequent key group; 0 without key groups. drifts_per_s: how often a second other keys become frequent.
    """

    peak: float
    peak_share: float
    peak_s: float
    hottest: float
    drifts_per_s: float


@dataclass(frozen=True, slots=True)
class Bursts:
    """Bursts of the sources of a job, which are independent. excess_OxS: input of an operator that a source adds while
    it is at a peak, over the operator's mean. peak_s_S: mean seconds of a peak."""

    excess_OxS: np.ndarray
    peak_s_S: np.ndarray

    def on(self, work_NxO: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Bursts of sums of work [N, O], of which each operator's is at its mean: what they add to a sum, by squares,
        as deviations do; by how many equal sources that may be; and the mean seconds of a peak, weighted by what it
        adds. [N] each"""
        excess_NxS = work_NxO @ self.excess_OxS
        total_N, squares_N = excess_NxS.sum(axis=-1), np.square(excess_NxS).sum(axis=-1)
        sources_N = np.divide(total_N**2, squares_N, out=np.zeros_like(total_N), where=squares_N > 0.0)
        weighted_N = excess_NxS @ self.peak_s_S
        return (
            np.sqrt(squares_N),
            sources_N,
            np.divide(weighted_N, total_N, out=np.zeros_like(total_N), where=total_N > 0.0),
        )


def variations(job: Job) -> tuple[dict[str, Variation], Bursts]:
    """Variation of the input of each operator of a job, by the operator's name, and the bursts behind it."""
    sources, keys = SourcePeaks(job), job.deployment.workload.keys
    mixed, peaks = sources.mixed(), sources.of.values()
    found = {}
    for component, height, share, mean_s in zip(job.components, mixed.height, mixed.share, mixed.mean_s, strict=True):
        name = component.operator.name
        found[name] = Variation(
            float(height), float(share), float(mean_s), *_keys(keys.get(name), component.key_groups)
        )
    excess_z = np.array([each.height - 1.0 for each in peaks])
    return found, Bursts(sources.part_oz * excess_z, np.array([each.mean_s for each in peaks]))


def _keys(skew: KeySkew | None, key_groups: int | None) -> tuple[float, float]:
    """Fields `hottest` and `drifts_per_s` of a Variation."""
    if key_groups is None:
        return 0.0, 0.0
    if skew is None:
        return 1.0 / key_groups, 0.0
    shares = skew.by_group(key_groups) if skew.placed else zipf_shares(key_groups, skew.zipf)
    return float(shares.max()), 1.0 / skew.drift_every_s if skew.drift_every_s else 0.0


# columns -------------------------------------------------------------------------------------------------------------
# Columns have the names of the features that are made of them (`models.features`); some are for vectors alone
# (`models.vectors`). Axes: O operators in data-flow order, H hosts of the cluster, N of these under some plan, P
# plans.


Columns = Mapping[str, np.ndarray]
"""Columns by name, with one value for each row."""

WORDS = ("function", "literal_type", "value_type", "group_by", "key_type")
"""Fields of operators' specs that hold a word."""
LEFT = {"cpu_percent": "left_percent"}
"""Fields that are read in place of others: other processes may use some of a host's cores."""
HARDWARE = {
    "cpu": "cpu_percent",
    "ram": "ram_mb",
    "network_bandwidth": "bandwidth_mbps",
    "network_latency": "latency_ms",
}
"""Columns of hosts that do not depend on the plan, and the fields of a host that they come from."""
LOADS = ("cpu_load", "network_load", "memory_load", "tasks", "burst_load", "bursts", "burst_s")
"""Columns of a host that depend on the plan: shares of CPU, outgoing bandwidth and RAM in use, and its subtasks; and
what bursts add to its use of CPU, of how many sources, and how long they are."""

OPERATOR_PHYSICS = (
    *("in_per_s", "out_per_s", "offered_pressure", "pressure", "service_s", "blocked"),
    *("channel_s", "queue_s", "window_s", "age_s"),
)
"""Columns of an operator that the rate model predicts."""
HOST_PHYSICS = {"cpu_used": "cpu", "nic_used": "card", "memory_used": "memory"}
"""Columns of a host that the rate model predicts, and the fields of its answer."""


@dataclass(frozen=True)
class JobColumns:
    """Columns of a job under its own plan. names, kinds: of the operators. operators: columns [O]. bursts: of the
    sources. streams: (producer, consumer), as the query lists them. levels_O: longest path from a source. subtasks_OxH:
    on each host."""

    deployment: Deployment
    names: tuple[str, ...]
    kinds: tuple[str, ...]
    operators: Columns
    bursts: Bursts
    streams: tuple[tuple[int, int], ...]
    levels_O: np.ndarray
    subtasks_OxH: np.ndarray

    @property
    def node_types(self) -> tuple[str, ...]:
        """Node type as which models see each operator."""
        return tuple(map(node_type, self.kinds))

    @property
    def used(self) -> np.ndarray:
        """Indices of the hosts that carry a subtask."""
        return np.flatnonzero(self.subtasks_OxH.any(axis=0))

    def hosts(self, host_N: np.ndarray | None = None, subtasks_NxO: np.ndarray | None = None) -> Columns:
        """Columns of hosts, by number, that carry these subtasks of each operator.

        Absent: of the hosts in use under the job's own plan. Work, state and traffic of an operator count as spread
        evenly over its subtasks, and every subtask sends to all subtasks of its consumers, so the share that leaves a
        host is one minus the consumer's share on it.
        """
        host_N = self.used if host_N is None else host_N
        subtasks_NxO = self.subtasks_OxH[:, host_N].T if subtasks_NxO is None else subtasks_NxO
        hosts, memory = self.deployment.cluster.hosts, self.deployment.engine.memory
        share_NxO = subtasks_NxO / self.operators["replicas"]
        bytes_N = np.zeros(len(host_N))
        for u, v in self.streams:
            bytes_N += self.operators["bytes_out"][u] * share_NxO[:, u] * (1 - share_NxO[:, v])
        cores_N = np.array([host.left_percent / 100 for host in hosts])[host_N]
        bandwidth_N = np.array([host.bandwidth_mbps * 1e6 / 8 for host in hosts])[host_N]
        ram_N = np.array([host.ram_mb for host in hosts])[host_N]
        work_NxO = share_NxO * self.operators["cpu_demand"] / cores_N[:, None]
        loads = (
            work_NxO.sum(axis=1),
            bytes_N / bandwidth_N,
            (memory.base_mb + share_NxO @ self.operators["state"]) / ram_N,
            subtasks_NxO.sum(axis=1),
            *self.bursts.on(work_NxO),
        )
        hardware = {name: of_H[host_N] for name, of_H in self.hardware.items()}
        return {**hardware, **dict(zip(LOADS, loads, strict=True))}

    @property
    def hardware(self) -> Columns:
        """Columns of all hosts, in the cluster's order, that do not depend on the plan."""
        hosts = self.deployment.cluster.hosts
        return {
            name: np.array([float(getattr(host, LEFT.get(field, field))) for host in hosts])
            for name, field in HARDWARE.items()
        }


def job_columns(deployment: Deployment) -> JobColumns:
    """Reads a job, of operators of any kind. Raises KeyError for an unplaced operator or an unknown host."""
    job = compile(deployment).apart
    sent_per_s = {name: rates.out_per_s for name, rates in job.rates.items()}
    varying, bursts = variations(job)
    rows = [_operator(job, each, sent_per_s, varying[each.operator.name]) for each in job.components]
    names = tuple(component.operator.name for component in job.components)
    number = {name: index for index, name in enumerate(names)}
    streams = tuple((number[stream.producer], number[stream.consumer]) for stream in deployment.query.streams)
    return JobColumns(
        deployment=deployment,
        names=names,
        kinds=tuple(component.operator.kind for component in job.components),
        operators={name: np.array([row[name] for row in rows]) for name in rows[0]},
        bursts=bursts,
        streams=streams,
        levels_O=_levels(len(names), streams),
        subtasks_OxH=subtask_counts(deployment, [deployment.plan])[0],
    )


def _operator(job: Job, component: Component, sent_per_s: Mapping[str, float], varying: Variation) -> dict[str, Any]:
    """Columns of one operator: spec, records, steady flow if all sources keep up, its variation, and costs."""
    query, engine, spec, rates = job.query, job.engine, component.operator, job.rates[component.operator.name]
    inputs, outputs = [query.columns_out[name] for name in query.feeds(spec.name)], query.columns_out[spec.name]
    service_s, bytes_in = engine.service_s(query, spec, sent_per_s), engine.input_bytes(query, spec.name, sent_per_s)
    scans_per_s, results_s = rates.fires_per_s * rates.window_records, rates.out_per_s * component.result_s
    return {
        "tuple_width_in": sum(columns.width for columns in inputs) / len(inputs),
        "tuple_width_out": outputs.width,
        "ints": outputs.ints,
        "strings": outputs.strings,
        "doubles": outputs.doubles,
        "tuple_bytes": component.bytes_out,
        "replicas": component.parallelism,
        "event_rate": rates.in_per_s,
        "rate_in": rates.in_per_s,
        "rate_out": rates.out_per_s,
        "bytes_out": rates.out_per_s * component.bytes_out,
        "service": service_s,
        "cpu_demand": rates.in_per_s * service_s + scans_per_s * component.scan_s + results_s,
        "service_scv": engine.service_scv_of(spec),
        "credits": engine.channel_records or job.least_room,
        "batch": engine.batch_of(component.bytes_out),
        "flush": engine.flush_s or 0.0,
        "context_switch": engine.context_switch,
        "window_tuples": rates.window_records,
        "fires": rates.fires_per_s,
        "results_per_fire": rates.out_per_s / rates.fires_per_s if rates.fires_per_s else 0.0,
        "groups": rates.groups_per_fire,
        "state": rates.state_records * bytes_in * engine.memory.object_overhead / 1e6,
        "memory": spec.memory_s,
        "awaits": float(bool(spec.awaits)),
        "awaits_watermark": float(spec.awaits == "watermark"),
        "keeps_rows": float(spec.keeps_rows),
        "updates": float(spec.updates),
        **asdict(varying),
        **_of_calls(spec, rates.in_per_s / component.parallelism),
        **_of_spec(spec, rates),
    }


def _of_calls(spec: AnyOperator, per_s: float) -> dict[str, float]:
    """Columns on calls of an operator to systems outside; all 0 for an operator without calls. per_s: records into a
    subtask. call_load: share of its places for calls that are in use on average."""
    if not isinstance(spec, Calling):
        return {"call_s": 0.0, "call_scv": 0.0, "call_load": 0.0, "ordered": 0.0}
    calls = spec.calls
    load = 0.0 if calls.capacity is None else per_s * calls.mean_s / calls.capacity
    return {"call_s": calls.mean_s, "call_scv": calls.scv, "call_load": load, "ordered": float(calls.ordered)}


def _of_spec(spec: AnyOperator, rates: OperatorRates) -> dict[str, Any]:
    """Words, selectivities (Costream, Definitions 6 to 8) and the window of an operator, of any kind; 0 for no window.
    output_per_input: its selectivity, or its output for a record where that is not defined."""
    by_definition = spec.selectivity_at(rates)
    given = getattr(spec, "selectivity", by_definition)
    window = spec.window if isinstance(spec, Windowed) else None
    size, slide = (0.0, 0.0) if window is None else (window.size, window.slide)
    counted = window is not None and window.policy == "count"
    return {
        **{name: getattr(spec, name, None) or NO_WORD for name in WORDS},
        "thins": spec.thins,
        "selectivity": 0.0 if given is None else given,
        "output_per_input": by_definition,
        "amplification": getattr(spec, "amplification", None) or 0.0,
        "measured": float(given is None),
        "windowed": window is not None,
        "window_type": "tumbling" if window is None or window.tumbling else "sliding",
        "window_policy": "time" if window is None else window.policy,
        "window_size_tuples": size if counted else 0.0,
        "window_size_s": 0.0 if counted else size,
        "slide_tuples": slide if counted else 0.0,
        "slide_s": 0.0 if counted else slide,
    }


def _levels(operators: int, streams: Sequence[tuple[int, int]]) -> np.ndarray:
    level_O = np.zeros(operators, int)
    for producer, consumer in sorted(streams):
        level_O[consumer] = max(level_O[consumer], level_O[producer] + 1)
    return level_O


def subtask_counts(deployment: Deployment, plans: Sequence[ExecutionPlan]) -> np.ndarray:
    """Subtasks [P, O, H] by operator and host. Raises KeyError for an unplaced operator or an unknown host."""
    host_of = {host.name: index for index, host in enumerate(deployment.cluster.hosts)}
    names = [operator.name for operator in deployment.query.topological]
    if isinstance(plans, Placements):
        return plans.subtask_counts(names)
    counts_PxOxH = np.zeros((len(plans), len(names), len(host_of)), np.float32)
    for p, plan in enumerate(plans):
        for o, name in enumerate(names):
            for place in plan.locations(name):
                counts_PxOxH[p, o, host_of[place.host]] += 1
    return counts_PxOxH


def base_costs(answer: RateAnswer) -> np.ndarray:
    """[P, len(ESTIMATED)] the rate model's predictions, which networks correct, in that order; for quantiles, those of
    the mean; NaN for checkpoints where there are none."""
    unknown_P, found = np.full(len(answer.results), np.nan), answer.costs.by_metric
    return np.stack([found.get(metric.partition(".")[0], unknown_P) for metric in ESTIMATED], axis=1)


def operator_physics(answer: RateAnswer) -> Columns:
    """[P, O] each: operators once their sources have been slowed until nothing is overloaded; offered_pressure: before
    that. service_s: at the speed that the socket gives it. Seconds are means over an operator's results."""
    derived = {
        "service_s": answer.service_s / np.maximum(answer.speed, 1e-6),
        "blocked": answer.blocked.astype(float),
    }
    return {name: derived.get(name, getattr(answer, name)) for name in OPERATOR_PHYSICS}


def host_physics(answer: RateAnswer) -> Columns:
    """[P, H] each: shares of a host's CPU, outgoing bandwidth and RAM in use, once sources have been slowed."""
    return {name: getattr(answer, field) for name, field in HOST_PHYSICS.items()}


WORKING = (
    *("sources", "operators", "subtasks", "gc_pause_s", "gc_interval_s", "jitter_scv", "debloat_s"),
    *("watermark_interval_s", "checkpoint_interval_s", "sync_s", "aligned", "exactly_once"),
)
"""Names of `composed`, which do not depend on where operators are."""


def composed(job: JobColumns) -> dict[str, float]:
    """What works in a job beside operators, streams and hosts, by WORKING: sizes, noise of the engine, and checkpoints.
    0 for what there is not."""
    deployment = job.deployment
    spec = deployment.checkpoints if isinstance(deployment, Scenario) else None
    noise, memory = deployment.engine.noise, deployment.engine.network_memory
    debloat = None if memory is None else memory.buffer_debloat
    found = {
        "sources": float(len(job.bursts.peak_s_S)),
        "operators": float(len(job.names)),
        "subtasks": float(job.operators["replicas"].sum()),
        "gc_pause_s": noise.gc_pause_s or 0.0,
        "gc_interval_s": noise.gc_interval_s or 0.0,
        "jitter_scv": noise.jitter_scv or 0.0,
        "debloat_s": 0.0 if debloat is None else debloat.target_s,
        "watermark_interval_s": deployment.engine.watermark_interval_s or 0.0,
    }
    if spec is None:
        return {**found, "checkpoint_interval_s": 0.0, "sync_s": 0.0, "aligned": 0.0, "exactly_once": 0.0}
    return {
        **found,
        "checkpoint_interval_s": spec.interval_s,
        "sync_s": spec.sync_ms * 1e-3,
        "aligned": float(spec.mode == "aligned"),
        "exactly_once": float(spec.sinks == "exactly-once"),
    }


def plan_physics(answer: RateAnswer, job: JobColumns, horizon_s: float) -> Columns:
    """[P] each: the rate model's estimates of plans, 0 where it has none, the numbers that they rest on, and those of
    `composed`.

    utilisation: highest offered pressure. ingested: smallest share of a source's rate. chances: expected independent
    chances of a result. lag_share: cost of the run's empty start, as a share of `horizon_s`, its length. blocked:
    share of the operators whose input is full. Seconds are since ingestion, summed over all operators. peak_pressure:
    highest offered pressure, or use of a host's cores, at peaks (of cores at the mean of the operators' peaks, weighted
    by their work). peak_left_s: seconds of work that a peak leaves. busiest: the busiest subtask's input over the mean.
    peaks: number of the longest kind in the run, 0 if arrivals are steady. results: of the run, expected.
    """
    peak_O = job.operators["peak"]
    work_O = job.operators["cpu_demand"] + 1e-12  # an average over none would fail where nothing takes any work
    cores_at_peak_P = answer.offered_cpu.max(axis=1) * np.average(peak_O, weights=work_O)
    at_peak_PxO = np.maximum(answer.offered_pressure * peak_O, cores_at_peak_P[:, None])
    longest_s, share = float(job.operators["peak_s"].max()), float(job.operators["peak_share"].min())
    same_P = np.ones(len(answer.results))
    return {
        "horizon_s": same_P * horizon_s,
        "peaks": same_P * (horizon_s * share / longest_s if longest_s else 0.0),
        "results": answer.results,
        "peak_pressure": at_peak_PxO.max(axis=1),
        "peak_left_s": (np.maximum(at_peak_PxO - 1.0, 0.0) * job.operators["peak_s"]).max(axis=1),
        "busiest": answer.busiest.max(axis=1),
        **{metric: answer.costs.by_metric.get(metric, 0.0 * same_P) for metric in (*METRICS, *RateModel().further)},
        **{name: same_P * value for name, value in composed(job).items()},
        "utilisation": answer.offered_pressure.max(axis=1),
        "ingested": answer.ingested.min(axis=1),
        "chances": answer.chances,
        "lag_share": answer.lag_s / horizon_s,
        "blocked": answer.blocked.mean(axis=1),
        **{name: getattr(answer, name).sum(axis=1) for name in ("channel_s", "queue_s", "window_s")},
    }
