"""Analytic cost model: steady rates, utilisations and queueing formulas instead of a simulation.

In order: (1) nominal rates and loads; (2) every source is slowed by the most loaded resource that its records meet,
until nothing is overloaded (`twin.rates.backpressure`); (3) the age of results is added up along the streams
(`twin.rates.latency`); (4) results of exactly-once sinks wait for their checkpoint (`twin.rates.checkpoints`).
Sockets count by distance, clock and memory bandwidth (`twin.rates.sockets`). Noise and `context_switch` do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from twin.checkpoints import Checkpoints
from twin.deployment import Deployment
from twin.job import compile
from twin.metrics import BACKPRESSURE_SHARE, CHECKPOINTS, DELAY, Estimates
from twin.plan import ExecutionPlan
from twin.rates.answer import RateAnswer, together
from twin.rates.arrays import JobArrays
from twin.rates.backpressure import Reached, Results, results, throttle
from twin.rates.channels import MeasuredSpan, stalls
from twin.rates.checkpoints import commits
from twin.rates.latency import result_ages_s
from twin.rates.layout import Layout
from twin.rates.load import Load, flow_at, load, memory, most_used, offered_flow, whole_speed_on
from twin.rates.network import used_hops
from twin.rates.seats import CountedPlans, Placements
from twin.scenario import RunSettings, Scenario
from twin.steadiness import measured_from_s
from twin.unsupported import unsupported_features

CHUNK = 16_384
"""Most plans estimated at a time: the more, the fewer calls of numpy, above all in the rounds that only a few plans
need (`twin.rates.backpressure`); their states must fit in memory."""
PAIRS = 2**20
"""Most pairs of operators, times plans, estimated at a time, as neighbours on a socket are compared pair by pair."""
SEEN = frozenset(
    {
        *("fusion", "sockets", "links", "skew", "assignment", "broadcast", "shared", "two-choice", "batches"),
        *("counting", "commits", "partitions", "forward", "global", "local", "lost"),
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
        if (spec := _checkpoints(job.deployment)) is not None:
            taken = commits(state, ages, spec)
            took = {"checkpoint_duration_s": taken.duration_s, "checkpoint_bytes": taken.size}
            found = taken.seen(found, measured) if spec.sinks == "exactly-once" else found
        offered_on, ingested = offered.pressure(job), ages.fills.taken_on[job.sources]
        tolerated = (1.0 + BACKPRESSURE_SHARE) ** SHARPNESS
        kept, held_s = share if self.endless else ingested, ages.fills.held_s[job.sources]
        seen = np.minimum(offered_on.max(axis=0), _seen(share, kept, held_s, measured))
        backpressured = 1.0 - 1.0 / (1.0 + np.minimum(seen, 100.0) ** SHARPNESS / tolerated)
        costs, chances = _costs(found, crashed, backpressured, reached, measured, took)
        slow_on = layout.mean(layout.slow_cn)  # work takes so many times as much CPU time
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


def _checkpoints(deployment: Deployment) -> Checkpoints | None:
    """Checkpoints of a deployment; None if it has none."""
    return deployment.checkpoints if isinstance(deployment, Scenario) else None


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


def _seen(share: np.ndarray, ingested: np.ndarray, held_s: np.ndarray, measured: MeasuredSpan) -> np.ndarray:
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
    results, evaluations = throughput * horizon_s, windowed.min(axis=0, initial=np.inf) * horizon_s
    return np.minimum(np.where(evaluations < 1.0, np.minimum(results, evaluations), results), 1000.0)


def _offered(layout: Layout) -> tuple[Layout, Load, dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Layout at the speed that memory leaves, loads if every source kept up, and how long joins stall [N]; use of
    memory [H, N], and who crashes [N]."""
    job, flow = layout.job, offered_flow(layout.job, layout.counted)
    slow_hn, used_hn, crashed = memory(layout, flow)
    offered = load(layout := layout.slowed(slow_hn), flow)
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
