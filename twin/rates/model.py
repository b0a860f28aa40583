"""Rate model, the analytic cost model: steady rates, utilisations and queueing formulas instead of a simulation.

It estimates metrics of plans as any cost model does (`predict`), and tells how it came to them (`answer`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from twin.deployment import Deployment
from twin.job import compile
from twin.metrics import BACKPRESSURE_SHARE, CHECKPOINTS, DELAY, Estimates, MarkerAge, marker_ages
from twin.plan import ExecutionPlan
from twin.query import Query
from twin.rates.arrays import JobArrays
from twin.rates.channels import MeasuredSpan, stalls, used_hops
from twin.rates.latency import commits, result_ages_s, stopped_hn
from twin.rates.layout import Layout
from twin.rates.load import (
    Load,
    Reached,
    Results,
    flow_at,
    load,
    memory,
    most_used,
    offered_flow,
    results,
    throttle,
    whole_speed_on,
)
from twin.rates.seats import CountedPlans, Placements
from twin.scenario import RunSettings, Scenario
from twin.steadiness import measured_from_s
from twin.unsupported import unsupported_features

# cost model ----------------------------------------------------------------------------------------------------------
# In order: (1) nominal rates and loads; (2) every source is slowed by the most loaded resource that its records meet,
# until nothing is overloaded (`twin.rates.load`); (3) the age of results is added up along the streams
# (`twin.rates.latency`); (4) results of exactly-once sinks wait for their checkpoint (`twin.rates.latency`).
# Sockets count by distance, clock and memory bandwidth (`twin.rates.sockets`). Pauses of a collector and
# checkpoints take their time from hosts (`twin.rates.latency`), bursts fill what channels have room for
# (`twin.rates.bursts`). Jitter and `context_switch` do not count.


CHUNK = 16_384
"""Most plans estimated at a time: the more, the fewer calls of numpy, above all in the rounds that only a few plans
need (`twin.rates.load`); their states must fit in memory."""
PAIRS = 2**20
"""Most pairs of operators, times plans, estimated at a time, as neighbours on a socket are compared pair by pair."""
SEEN = frozenset(
    {
        *("fusion", "sockets", "links", "skew", "assignment", "broadcast", "shared", "two-choice", "batches"),
        *("counting", "commits", "partitions", "forward", "global", "local", "lost", "arrivals", "pauses"),
    }
)
"""Features beyond a plain job that the model sees (names of `twin.unsupported`)."""
LASTING_S = 86_400.0
"""Length in seconds of a long run: a day."""
SHARPNESS = 20.0
"""Steepness of the probability of backpressure in the log of the utilisation: 12 % at 0.9, 50 % at 1, 87 % at 1.1."""


@dataclass(frozen=True, slots=True)
class RateModel:
    """Analytic cost model, as `twin.metrics.CostModel` asks for.

    horizon_s: length of the run that is predicted, from an empty start, > 0; None: that of the scenario, measured after
    its warm-up, and of a deployment the usual one. warmup_s: start of the measured part of a run of `horizon_s`, below
    it. endless: whether backpressure is that of an endless run, in which every overload shows. further: what it
    estimates beside METRICS, of checkpoints only where a scenario takes some.
    """

    horizon_s: float | None = None
    warmup_s: float = 0.0
    endless: bool = False
    name: str = "rates"
    further: tuple[str, ...] = (DELAY, *CHECKPOINTS)

    def predict(self, scenario: Scenario, plans: Sequence[ExecutionPlan]) -> Estimates:
        """Estimates each plan; the spread is 0. Raises KeyError if a plan does not fit the scenario."""
        return self.answer(scenario, plans).costs

    def blind_to(self, scenario: Scenario) -> tuple[str, ...]:
        """Parts of the scenario that the model ignores, in words."""
        horizon_s, words = self.run_s(scenario), unsupported_features(scenario, SEEN)
        same = horizon_s == scenario.run.horizon_s
        return words if same else (*words, f"the horizon (it answers for runs of {horizon_s:g} s)")

    def lasting(self) -> RateModel:
        """Model for runs of a day in which every overload shows, however large and many the buffers of channels are."""
        return replace(self, horizon_s=LASTING_S, warmup_s=0.0, endless=True)

    def planning(self) -> RateModel:
        """Model for choosing plans: means are of the run, but whether a job keeps up is of an endless one.

        In a run that ends while channels fill, the latency of an overloaded plan tells only how long the run is.
        """
        return replace(self, endless=True)

    def run_s(self, deployment: Deployment) -> float:
        """Length of the run that is predicted, in seconds."""
        settings = deployment.run if isinstance(deployment, Scenario) else RunSettings()
        return settings.horizon_s if self.horizon_s is None else self.horizon_s

    def measured(self, deployment: Deployment) -> MeasuredSpan:
        """Part of the predicted run over which means are taken."""
        if self.horizon_s is None and isinstance(deployment, Scenario):
            return MeasuredSpan(measured_from_s(deployment), deployment.run.horizon_s)
        return MeasuredSpan(self.warmup_s, self.run_s(deployment))

    def answer(self, deployment: Deployment, plans: Sequence[ExecutionPlan]) -> RateAnswer:
        """Returns the estimates and all that led to them. Raises KeyError if a plan does not fit the deployment."""
        if isinstance(plans, Placements | CountedPlans) and not plans.given.key_groups:  # which counts do not hold
            return self.answer_counts(deployment, plans.socket_counts(deployment))
        job = JobArrays(compile(deployment), self.run_s(deployment))
        some = plans[:: 1 + len(plans) // 64]
        most = max((sum(len(set(parallelism)) for parallelism in plan.placement.values()) for plan in some), default=1)
        return self._answers(
            job, self.measured(deployment), len(plans), most, lambda part: Layout.of_plans(job, plans[part])
        )

    def offered(self, deployment: Deployment, plans: Sequence[ExecutionPlan]) -> tuple[np.ndarray, np.ndarray]:
        """`RateAnswer.offered_pressure` [P, O] and `offered_cpu` [P, H] alone, in a fraction of the time."""
        job = JobArrays(compile(deployment), self.run_s(deployment))
        layout, offered, *_ = _offered(Layout.of_plans(job, plans))
        return offered.pressure(layout.job).T, offered.cpu_hn.T

    def answer_counts(self, deployment: Deployment, counts: np.ndarray) -> RateAnswer:
        """Returns the answer for plans given as subtasks by plan, operator in data-flow order, and socket [P, O, L].

        Sockets are those of all hosts in a row. Raises ValueError for another shape or an operator without subtasks.
        """
        job = JobArrays(compile(deployment), self.run_s(deployment))
        shape = (len(job.names), len(job.places.capacity_l))
        if counts.ndim != 3 or counts.shape[1:] != shape or (counts.sum(axis=2) < 1).any():
            raise ValueError(f"counts must be [plans, {shape[0]}, {shape[1]}], a subtask or more each operator")
        most = int((counts > 0).sum(axis=(1, 2)).max(initial=1))
        return self._answers(
            job, self.measured(deployment), len(counts), most, lambda part: Layout.of_counts(job, counts[part])
        )

    def _answers(
        self, job: JobArrays, measured: MeasuredSpan, plans: int, cells: int, layout: Callable[[slice], Layout]
    ) -> RateAnswer:
        step = max(1, min(CHUNK, PAIRS // cells**2))
        parts = (layout(slice(start, start + step)) for start in range(0, max(1, plans), step))
        return together([self._answer(part, measured) for part in parts])

    def _answer(self, layout: Layout, measured: MeasuredSpan) -> RateAnswer:
        state, memory_hn, crashed = _loads(layout)
        layout, offered, reached, share = state.layout, state.offered, state.reached, state.share
        job = layout.job
        ages = result_ages_s(layout, offered, reached, share, measured)
        found = results(state, ages, measured)
        took = dict[str, np.ndarray]()
        if (spec := job.checkpoints) is not None:
            taken = commits(state, ages, spec)
            took = {"checkpoint_duration_s": taken.duration_s, "checkpoint_bytes": taken.size}
            found = taken.seen(found, measured) if spec.sinks == "exactly-once" else found
        offered_on, ingested = offered.pressure(job), ages.fills.taken_on[job.sources]
        tolerated = (1.0 + BACKPRESSURE_SHARE) ** SHARPNESS
        kept, held_s = share if self.endless else ingested, ages.fills.held_s[job.sources]
        seen = np.minimum(offered_on.max(axis=0), _pressure_shown(share, kept, held_s, measured))
        backpressured = 1.0 - 1.0 / (1.0 + np.minimum(seen, 100.0) ** SHARPNESS / tolerated)
        if not self.endless:  # in which bursts leave no lasting backlog
            backpressured = np.maximum(backpressured, ages.behind)
        costs, chances = _costs(found, crashed, backpressured, reached, measured, took)
        slow_on = layout.mean(layout.slow_cn)  # work takes so many times as long
        speed_on = whole_speed_on(layout, reached)
        return RateAnswer(
            operators=job.names,
            sources=tuple(job.names[o] for o in job.sources),
            hosts=tuple(host.name for host in job.deployment.cluster.hosts),
            costs=costs,
            offered_in_per_s=_plans_first(offered.in_on, layout.size),
            offered_out_per_s=_plans_first(offered.out_on, layout.size),
            offered_pressure=offered_on.T,
            in_per_s=_plans_first(reached.in_on, layout.size),
            out_per_s=_plans_first(reached.out_on, layout.size),
            pressure=reached.pressure(job).T,
            service_s=(reached.service_on * slow_on).T,
            busy_cores=(reached.busy_on * slow_on).T,
            speed=speed_on.T,
            used=np.minimum(layout.tasks(reached.busy_on * slow_on) / np.maximum(speed_on, 1e-300), 1.0).T,
            busiest=layout.busiest_on.T,
            busiest_used=most_used(layout, reached).T,
            blocked=ages.blocked_on.T,
            age_s=ages.ages_s[0].T,
            e2e_age_s=ages.ages_s[1].T,
            channel_s=ages.channel_s.T,
            queue_s=ages.queue_s.T,
            line_s=ages.line_s.T,
            window_s=ages.window_s.T,
            offered_cpu=offered.cpu_hn.T,
            cpu=reached.cpu_hn.T,
            offered_card=offered.card_hn.T,
            card=reached.card_hn.T,
            links=used_hops(layout, reached)[:, len(job.places.bandwidth_h) :],
            memory=memory_hn.T,
            ingested=share.T,
            delivered=ingested.T,
            lag_s=ages.results_s[2],
            results=np.where(crashed, 0.0, found.per_s) * measured.length_s,
            chances=chances,
        )


def _costs(
    found: Results,
    crashed: np.ndarray,
    backpressured: np.ndarray,
    reached: Load,
    measured: MeasuredSpan,
    took: Mapping[str, np.ndarray],
) -> tuple[Estimates, np.ndarray]:
    """Estimated costs, and the chances of a result [N]; see `RateAnswer`. took: of checkpoints."""
    throughput = np.where(crashed, 0.0, found.per_s)
    chances = _chances(reached.fires_on, throughput, measured.length_s)
    success = 1.0 - 0.5**chances  # one half at one expected output
    costs = {
        "throughput_per_s": np.divide(throughput, success, out=np.zeros_like(throughput), where=success > 0),
        "processing_latency_s": found.ages_s[0],
        "e2e_latency_s": found.ages_s[1],
        "backpressured": backpressured,
        "success": success,
        DELAY: found.delay_s,
        **took,
    }
    return Estimates(costs, spread=np.zeros(len(throughput))), chances


def _pressure_shown(share: np.ndarray, ingested: np.ndarray, held_s: np.ndarray, measured: MeasuredSpan) -> np.ndarray:
    """Highest pressure that sources show in a run: offered over ingested rate, from an empty start. [N]

    It is below 1 where channels would not fill in the run. held_s: time at which sources are held back for good
    [sources, N].
    """
    late = np.minimum(measured.end_s / np.maximum(held_s, 1e-9), 1.0)
    shown = np.where((ingested < 1.0) | (share >= 1.0), 1.0 / np.maximum(ingested, 1e-9), late)
    return np.asarray(np.where((share < 1.0).any(axis=0), shown.max(axis=0), np.inf))


def _chances(fires_on: np.ndarray, throughput: np.ndarray, horizon_s: float) -> np.ndarray:
    """Expected outputs of the run; if a window may not be evaluated in it at all, no more than its evaluations, as
    results of an evaluation come together. [N]"""
    windowed = fires_on[(fires_on > 0).any(axis=1)]
    expected, evaluations = throughput * horizon_s, windowed.min(axis=0, initial=np.inf) * horizon_s
    return np.minimum(np.where(evaluations < 1.0, np.minimum(expected, evaluations), expected), 1000.0)


def _offered(layout: Layout) -> tuple[Layout, Load, dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Layout at the speed that memory, pauses and checkpoints leave, loads if every source kept up, and how long joins
    stall [N]; use of memory [H, N], and who crashes [N]."""
    job, flow = layout.job, offered_flow(layout.job, layout.counted)
    slow_hn, used_hn, crashed = memory(layout, flow)
    unslowed, offered = layout, load(layout := layout.slowed(slow_hn), flow)
    if (stopped := stopped_hn(layout, offered)).any():
        offered = load(layout := unslowed.slowed(slow_hn / (1.0 - stopped)), flow)
    stalls_s = stalls(layout, offered)
    if stalls_s:
        per_s = {name: np.full(layout.size, rate) for name, rate in job.offered_per_s.items()}
        offered = load(layout, flow_at(job, per_s, stalls_s, counted=layout.counted))
    return layout, offered, stalls_s, used_hn, crashed


def _loads(layout: Layout) -> tuple[Reached, np.ndarray, np.ndarray]:
    """Loads offered and reached, and the ingested share of each source; use of memory [H, N], and who crashes [N]."""
    layout, offered, stalls_s, used_hn, crashed = _offered(layout)
    job = layout.job
    share = throttle(layout, offered, stalls_s)
    slowed = np.asarray((share < 1.0).any(axis=0))
    if not slowed.any():
        return Reached(layout, offered, offered, share), used_hn, crashed
    names = [job.names[o] for o in job.sources]
    rates = {name: job.offered_per_s[name] * each[slowed] for name, each in zip(names, share, strict=True)}
    part = layout.select(slowed)
    flow = flow_at(job, rates, {name: each[slowed] for name, each in stalls_s.items()}, counted=part.counted)
    reached = offered.with_part(slowed, load(part, flow))
    return Reached(layout, offered, reached, share), used_hn, crashed


def _plans_first(each_on: np.ndarray, plans: int) -> np.ndarray:
    return np.broadcast_to(each_on, (len(each_on), plans)).T


# answers -------------------------------------------------------------------------------------------------------------
# An answer has the costs of plans, and the rates, utilisations and ages that led to them.


@dataclass(frozen=True, slots=True)
class RateAnswer:
    """Answer about P plans of one job. Arrays are [P], [P, O] by operator, [P, S] by source, or [P, H] by host.

    *Offered* is the state if every source kept up; *reached* the state after sources have been slowed until nothing is
    overloaded. Rates are of all subtasks together, in records a second.
    """

    operators: tuple[str, ...]
    """Names of the operators in data-flow order: the columns O."""
    sources: tuple[str, ...]
    """Names of the sources in data-flow order: the columns S."""
    hosts: tuple[str, ...]
    """Names of the hosts in the cluster's order: the columns H."""
    costs: Estimates
    """Costs that `predict` returns."""

    offered_in_per_s: np.ndarray
    """[P, O] Records in (a source: arrivals at its broker), offered."""
    offered_out_per_s: np.ndarray
    """[P, O] Records out, counted once however many consumers there are, offered."""
    offered_pressure: np.ndarray
    """[P, O] Highest utilisation among what the operator depends on (its CPU, memory and channels of its sockets,
    network cards and links of its output, credits of its output channels), offered; above 1: it cannot keep up."""

    in_per_s: np.ndarray
    """[P, O] Records in, reached."""
    out_per_s: np.ndarray
    """[P, O] Records out, reached."""
    pressure: np.ndarray
    """[P, O] As `offered_pressure`, reached: at most about 1."""
    service_s: np.ndarray
    """[P, O] CPU seconds (reference cores) of an input record, (de)serialisation, slow-down by garbage collection and
    waits for the memory of other sockets included, window evaluations apart; mean of all subtasks; reached."""
    busy_cores: np.ndarray
    """[P, O] Mean demand of one subtask in reference cores, window evaluations included, of this operator alone; its
    thread has that of all that is chained to it; reached."""
    speed: np.ndarray
    """[P, O] Reference cores that a subtask can get beside its neighbours, at most one core of its clock, on the worst
    socket; reached."""
    used: np.ndarray
    """[P, O] Share of its time for which the mean subtask works, at `speed`, as runs and engines report it: chained
    operators are one task, so this is that of all of them together."""
    busiest: np.ndarray
    """[P, O] Input of the busiest subtask over the mean of all subtasks; above 1 if keys or partitions are uneven."""
    busiest_used: np.ndarray
    """[P, O] Largest share of its time for which a subtask works, with what is chained to it, at the speed that it
    reaches."""
    blocked: np.ndarray
    """[P, O] bool: the operator's input channels are full, as it or something downstream of it is the bottleneck."""

    age_s: np.ndarray
    """[P, O] Mean age of what the operator emits, since the ingestion of the oldest record involved."""
    e2e_age_s: np.ndarray
    """[P, O] Mean age of what the operator emits, since the generation of that record at the broker (end-to-end)."""
    channel_s: np.ndarray
    """[P, O] Part of `age_s`: mean over its inputs of the time on the network and in full channels; 0 of sources."""
    queue_s: np.ndarray
    """[P, O] Part of `age_s`: service and the wait for it."""
    line_s: np.ndarray
    """[P, O] Part of `queue_s`: the wait for service."""
    window_s: np.ndarray
    """[P, O] Part of `age_s`: what the window adds to the mean age of the input; 0 without one."""

    offered_cpu: np.ndarray
    """[P, H] Demand over capacity of a host's cores, offered; 0 where the host carries nothing."""
    cpu: np.ndarray
    """[P, H] Demand over capacity of a host's cores, reached."""
    offered_card: np.ndarray
    """[P, H] Bytes that leave over a host's bandwidth, offered."""
    card: np.ndarray
    """[P, H] Bytes that leave over a host's bandwidth, reached."""
    links: np.ndarray
    """[P, 2 L] Utilisation of the cluster's links, reached, in their order: each first from its first end, then
    the other way."""
    memory: np.ndarray
    """[P, H] Share of RAM that engine, windows and state fill, offered; 0 where the host carries nothing."""

    ingested: np.ndarray
    """[P, S] Share of a source's offered rate that it ingests, in (0, 1]."""
    delivered: np.ndarray
    """[P, S] Share ingested over the measured part of a run, in which channels before a bottleneck may still fill."""
    lag_s: np.ndarray
    """[P] Lag of a run that starts empty: the seconds of steady output by which it falls short of its length."""
    results: np.ndarray
    """[P] Expected results at the sinks in a run, reached; 0 if a host's memory overflows."""
    chances: np.ndarray
    """[P] Expected independent chances of a result: results, but no more than evaluations of any window, at most 1,000.
    """


def together(parts: Sequence[RateAnswer]) -> RateAnswer:
    """Joins answers for the same job, at least one, in order."""
    first = parts[0]
    columns = {
        field.name: np.concatenate([getattr(part, field.name) for part in parts])
        for field in fields(RateAnswer)
        if isinstance(getattr(first, field.name), np.ndarray)
    }
    return RateAnswer(
        operators=first.operators,
        sources=first.sources,
        hosts=first.hosts,
        costs=Estimates.together(part.costs for part in parts),
        **columns,
    )


def markers_of(answer: RateAnswer, query: Query, plan: int = 0) -> tuple[MarkerAge, ...]:
    """Marker ages under one of the plans, by operator and source."""
    way_s = dict(zip(answer.operators, (answer.channel_s + answer.line_s)[plan].tolist(), strict=True))
    return marker_ages(query, {(each.producer, each.consumer): way_s[each.consumer] for each in query.streams})
