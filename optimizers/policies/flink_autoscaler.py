"""Scales as the autoscaler of Flink's Kubernetes operator does (release 1.15), with its options under their names.

Options are those of `job.autoscaler.*`. Chained operators are one vertex, as in Flink. The true processing rate of a
vertex is its input over the busy time of its busiest subtask (`metrics.busy-time.aggregator`). It is compared with the
rate that the vertex should take: the arriving rate, passed on by measured output ratios, at `utilization.target`; and
its part of the sources' lag and of the arrivals during `restart.time`, to be caught up within `catch-up.duration`.
Nothing changes while every vertex that would change is within `utilization.min` and `.max`. While a source lags by more
than `backlog-processing.lag-threshold`, subtasks may be fully busy and none are taken away. A source that lags shows
how much it can read: that counts where busy time promises more (`observed-true-processing-rate.*`).

Rates are means over `metrics.window`; for `stabilization.interval` after each restart nothing is decided. Fewer
subtasks come only after `scale-down.interval`, as many as the most that was called for in it. Sources with partitions
and keyed vertices get parallelisms that divide these, if possible.

Flink's durations are in minutes, and its autoscaler looks about once a minute: here a period stands for a minute.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from statistics import fmean
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from optimizers.policies.room import continues, fixed_operators, rescaled, stood_still
from twin.chaining import Fused, fused
from twin.control import PeriodStatistics, PolicySpec, Reconfiguration
from twin.deployment import Deployment
from twin.errors import BadInput, suggest
from twin.key_skew import default_key_groups
from twin.query import Query
from twin.workload import key_groups_of

ROUNDING = 1e-9
AGGREGATORS: Mapping[str, Callable[[Iterable[float]], float]] = {"MAX": max, "AVG": fmean, "MIN": min}
Periods = Annotated[int, Field(ge=0, le=10**6)]
Utilization = Annotated[float | None, Field(ge=0, le=1, exclude_if=lambda bound: bound is None)]


class FlinkAutoscalerSpec(PolicySpec):
    """Settings of policy `flink-autoscaler`; defaults are Flink's, with periods for minutes."""

    name: Literal["flink-autoscaler"] = "flink-autoscaler"
    utilization_target: Annotated[float, Field(gt=0, le=1, description="share of time that subtasks are busy")] = 0.7
    utilization_min: Annotated[
        Utilization, Field(description="below which subtasks go; absent: target less boundary")
    ] = None
    utilization_max: Annotated[
        Utilization, Field(description="above which subtasks come; absent: target plus boundary")
    ] = None
    target_utilization_boundary: Annotated[float, Field(ge=0, le=1, description="allowed on both sides of it")] = 0.3
    metrics_window_periods: Annotated[int, Field(ge=1, le=10**6, description="that means are taken over")] = 15
    metrics_busy_time_aggregator: Annotated[
        Literal["MAX", "AVG", "MIN"], Field(description="of the subtasks' busy times, that stands for the vertex")
    ] = "MAX"
    stabilization_interval_periods: Annotated[Periods, Field(description="after a restart, without decisions")] = 5
    catch_up_duration_periods: Annotated[Periods, Field(description="for lag to be made up for; 0: it is left out")] = (
        30
    )
    restart_time_periods: Annotated[Periods, Field(description="that a change is expected to stop the job for")] = 5
    backlog_processing_lag_threshold_periods: Annotated[
        Periods, Field(description="of lag, from which on subtasks may be fully busy and none go")
    ] = 5
    observed_true_processing_rate_lag_threshold_periods: Annotated[
        float, Field(ge=0, le=10**6, description="of lag, from which on what a source reads is all that it can")
    ] = 0.5
    observed_true_processing_rate_switch_threshold: Annotated[
        float, Field(ge=0, description="share by which busy time must promise more, for what is observed to count")
    ] = 0.15
    observed_true_processing_rate_min_observations: Annotated[
        int, Field(ge=1, description="periods in which it must have been observed")
    ] = 2
    scale_down_interval_periods: Annotated[Periods, Field(description="that fewer subtasks must be called for")] = 60
    scale_down_max_factor: Annotated[float, Field(ge=0, le=1, description="of the subtasks may go at once")] = 0.6
    scale_up_max_factor: Annotated[float, Field(gt=0, description="times as many may come at once")] = 100_000.0
    scaling_effectiveness_detection_enabled: Annotated[
        bool, Field(description="whether a vertex that gained too little from its last subtasks gets no more")
    ] = False
    scaling_effectiveness_threshold: Annotated[
        float, Field(ge=0, le=1, description="share of the gain in true rate that was expected, below which it is that")
    ] = 0.1
    scaling_key_group_partitions_adjust_mode: Annotated[
        Literal["EVENLY_SPREAD", "MAXIMIZE_UTILISATION"],
        Field(description="whether only divisors of key groups or partitions are taken, or also fewer subtasks"),
    ] = "EVENLY_SPREAD"
    vertex_min_parallelism: Annotated[int, Field(ge=1, description="subtasks of a vertex")] = 1
    vertex_max_parallelism: Annotated[int, Field(ge=1, description="subtasks of a vertex")] = 200
    vertex_exclude_ids: Annotated[
        tuple[str, ...], Field(description="operators whose vertices are left as they are")
    ] = ()

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.vertex_min_parallelism > self.vertex_max_parallelism:
            raise ValueError("vertex_min_parallelism is above vertex_max_parallelism; give it at most that")
        low, high = self.bounds
        if not low <= self.utilization_target <= high:
            raise ValueError(
                f"utilization_target {self.utilization_target:g} is outside of utilization_min {low:g} and "
                f"utilization_max {high:g}; give it a value between them"
            )
        return self

    @property
    def bounds(self) -> tuple[float, float]:
        """Utilisations between which a vertex is left as it is."""
        target, boundary = self.utilization_target, self.target_utilization_boundary
        low = target - boundary if self.utilization_min is None else self.utilization_min
        return low, target + boundary if self.utilization_max is None else self.utilization_max

    @property
    def periods_before_acting(self) -> int:
        """Number of periods before the policy can act: the stabilization interval and a full metrics window."""
        return self.stabilization_interval_periods + self.metrics_window_periods

    def start(self, deployment: Deployment) -> FlinkAutoscaler:
        """Starts the policy for one run. Raises BadInput for an excluded operator that does not exist."""
        return FlinkAutoscaler(deployment, self)


class Evaluated(NamedTuple):
    """Rates of a vertex over the window, in records a second. true_rate: of all its subtasks; inf if nothing came."""

    target_rate: float
    catch_up_rate: float
    true_rate: float

    def capacity(self, utilization: float, restart_share: float = 0.0) -> float:
        """Rate that the vertex needs to be that busy, in whole records a second, as Flink rounds it. restart_share:
        restart time over `catch-up.duration`."""
        if utilization <= 0.0:
            return math.inf
        at_utilization = self.target_rate / min(1.0, utilization)
        return math.floor(self.catch_up_rate + self.target_rate * restart_share + at_utilization + 0.5)


class VertexChange(NamedTuple):
    """Change of a vertex that is called for. subtasks: their number then. outside: whether the vertex is outside of its
    bounds of utilisation. expected_rate: true rate that it should have then. limit: why it gets no more subtasks; empty
    if it gets enough."""

    subtasks: int
    outside: bool = False
    expected_rate: float = math.nan
    limit: str = ""


class Sample(NamedTuple):
    """Period measured, and the rate at which each source could have read, where it was observed, or is remembered."""

    period: PeriodStatistics
    observed: dict[str, float]


class Scaled(NamedTuple):
    """Last scaling of a vertex: its subtasks before and since, its true rate before, and as expected since."""

    before: int
    after: int
    true_rate: float
    expected_rate: float


class FlinkAutoscaler:
    """Flink's autoscaler in one run. heads: the vertex of each operator, which has the name of its first operator."""

    name = "flink-autoscaler"

    def __init__(self, deployment: Deployment, spec: FlinkAutoscalerSpec) -> None:
        self.deployment = deployment
        self.spec = spec
        query, chains = deployment.query, fused(deployment.query, deployment.plan, deployment.engine)
        self.heads = {operator.name: operator.name for operator in query.topological}
        self.heads |= {name: chain[0] for chain in chains for name in chain}
        self._ends = {chain[0]: _sending(query, chain) for chain in chains}
        ends = [(self.heads[stream.producer], self.heads[stream.consumer]) for stream in query.streams]
        between = [(one, other) for one, other in dict.fromkeys(ends) if one != other]
        self._inputs = {head: [one for one, other in between if other == head] for head in self.heads.values()}
        self._outputs = {head: [other for one, other in between if one == head] for head in self._inputs}
        for name in spec.vertex_exclude_ids:
            if name not in self.heads:
                raise BadInput(f"vertex_exclude_ids: unknown operator {name!r}; {suggest(name, self.heads)}")
        self._excluded = {self.heads[name] for name in spec.vertex_exclude_ids}
        self._fixed = fixed_operators(deployment, sources=True)
        self._samples: deque[Sample] = deque(maxlen=spec.periods_before_acting)
        self._stable = 0  # periods since the last restart
        self._last: PeriodStatistics | None = None
        self._fewer: dict[str, list[tuple[float, VertexChange]]] = {}  # (time, change) since fewer were called for
        self._scaled: dict[str, Scaled] = {}

    def decide(self, statistics: PeriodStatistics) -> Reconfiguration | None:
        """Returns new numbers of subtasks once the window is full and a vertex is out of bounds; else None."""
        last, self._last = self._last, statistics
        if (last is not None and not continues(last, statistics)) or stood_still(statistics, self.deployment):
            self._samples.clear()
            self._stable = 0
            return None
        self.measure(statistics)
        self._stable += 1
        if self._stable < self.spec.periods_before_acting:
            return None
        while len(self._samples) > self.spec.metrics_window_periods:
            self._samples.popleft()  # what was observed before the window counts up to the first decision, as in Flink
        return self._decided(statistics)

    def _decided(self, statistics: PeriodStatistics) -> Reconfiguration | None:
        """Change of all vertices, if one that can be scaled is out of bounds. Those that cannot are warned of."""
        evaluated = self.evaluated()
        changes = {name: self._change(name, rates) for name, rates in evaluated.items() if name not in self._excluded}
        changed = {name: change for name, change in changes.items() if change.subtasks != self._present(name)}
        acts = any(change.outside for name, change in changed.items() if name not in self._fixed)
        wanted = {
            name: each.subtasks for name, each in changed.items() if (each.outside if name in self._fixed else acts)
        }
        limits = {name: change.limit for name, change in changes.items() if change.outside and change.limit}
        decision = rescaled(self.deployment, statistics, wanted, self._fixed, limits)
        for rescale in decision.rescales if decision is not None else ():
            name, count = rescale.operator, len(rescale.placement)
            rates = evaluated[name].true_rate, changed[name].expected_rate
            self._scaled[name] = Scaled(self._present(name), count, *rates)
            self._fewer.clear()
        return decision

    # what is measured ------------------------------------------------------------------------------------------------

    def measure(self, period: PeriodStatistics) -> None:
        """Adds a period in which the job ran without a restart."""
        observed = {source.name: self._observed(source.name, period) for source in self.deployment.query.sources}
        self._samples.append(Sample(period, observed))

    def evaluated(self) -> dict[str, Evaluated]:
        """Rates of all vertices over the window; there must be a sample."""
        found = dict[str, Evaluated]()
        catch_up_s = self.spec.catch_up_duration_periods * self._window[-1].period.length_s
        for name in self._inputs:
            if not self._inputs[name]:
                target = self._rate(name, "arrived")  # what is read, and by how much the lag grows
                catch_up = self._row(name)["backlog"] / catch_up_s if catch_up_s else 0.0
            else:
                ratios = {producer: self._output_ratio(producer, name) for producer in self._inputs[name]}
                target = sum(found[producer].target_rate * ratio for producer, ratio in ratios.items())
                catch_up = sum(found[producer].catch_up_rate * ratio for producer, ratio in ratios.items())
            found[name] = Evaluated(target, catch_up, self._true_rate(name))
        return found

    def _true_rate(self, name: str) -> float:
        """True rate of a vertex: input over busy time, or what was observed; inf where nothing is known."""
        aggregate = AGGREGATORS[self.spec.metrics_busy_time_aggregator]
        busy_ms = fmean(
            aggregate([row["busyTimeMsPerSecond"] for row in sample.period.subtasks[name]]) for sample in self._window
        )
        taken = self._rate(name, "numRecordsIn")
        by_busy_time = 1000 * taken / busy_ms if taken and busy_ms else math.inf
        observed = self._mean(name, self._window)
        switch = 1.0 + self.spec.observed_true_processing_rate_switch_threshold
        return observed if by_busy_time > observed * switch else by_busy_time

    def _observed(self, name: str, period: PeriodStatistics) -> float:
        """Rate at which a source could have read in a period, if it lagged, or the mean of those observed so far; nan
        if nothing came, or nothing is known."""
        row, rate = period.operators[name], period.operators[name]["numRecordsIn"] / period.length_s
        free = 1.0 - row["backPressuredTimeMsPerSecond"] / 1000
        lag_s = self.spec.observed_true_processing_rate_lag_threshold_periods * period.length_s
        if not rate:
            return math.nan
        return rate / free if row["backlog"] >= lag_s * rate and free > 0.0 else self._mean(name, self._samples)

    def _mean(self, name: str, samples: Iterable[Sample]) -> float:
        """Mean of a source's observed rates; nan without enough of them."""
        rates = [rate for sample in samples if not math.isnan(rate := sample.observed.get(name, math.nan))]
        return fmean(rates) if len(rates) >= self.spec.observed_true_processing_rate_min_observations else math.nan

    def _output_ratio(self, producer: str, consumer: str) -> float:
        """Records that come to a vertex for each one that another takes in. Flink measures no single streams: what
        other producers send is subtracted if they send nowhere else; else all that this one sends counts."""
        taken = self._rate(producer, "numRecordsIn")
        others = [name for name in self._inputs[consumer] if name != producer]
        if all(len(self._outputs[other]) == 1 for other in others):
            sent = self._rate(consumer, "numRecordsIn") - sum(map(self._sent, others))
        else:
            sent = self._sent(producer)
        return max(0.0, sent / taken) if taken else 0.0

    def _sent(self, name: str) -> float:
        return sum(self._rate(each, "numRecordsOut") for each in self._ends.get(name, [name]))

    def _lagging(self) -> bool:
        """Whether a source lags by more than the threshold, at the rate at which it reads."""
        allowed_s = self.spec.backlog_processing_lag_threshold_periods * self._window[-1].period.length_s
        names = [source.name for source in self.deployment.query.sources]
        return any(self._row(name)["backlog"] > allowed_s * self._rate(name, "numRecordsIn") for name in names)

    def _rate(self, name: str, column: str) -> float:
        """Mean over the window, in records a second."""
        periods = [sample.period for sample in self._window]
        return float(sum(each.operators[name][column] for each in periods)) / sum(each.length_s for each in periods)

    @property
    def _window(self) -> list[Sample]:
        return list(self._samples)[-self.spec.metrics_window_periods :]

    def _row(self, name: str) -> Mapping[str, float]:
        return self._samples[-1].period.operators[name]

    def _present(self, name: str) -> int:
        return len(self._samples[-1].period.placement[name])

    # what follows from it --------------------------------------------------------------------------------------------

    @property
    def _restart_share(self) -> float:
        spec = self.spec
        return spec.restart_time_periods / spec.catch_up_duration_periods if spec.catch_up_duration_periods else 0.0

    def _outside(self, rates: Evaluated) -> bool:
        lower, upper = (0.0, 1.0) if self._lagging() else self.spec.bounds
        return not rates.capacity(upper) <= rates.true_rate <= rates.capacity(lower, self._restart_share)

    def wanted_rate(self, rates: Evaluated) -> float:
        """Rate that a vertex should be capable of taking, in records a second."""
        return rates.capacity(self.spec.utilization_target, self._restart_share)

    def _change(self, name: str, rates: Evaluated) -> VertexChange:
        """Change of a vertex by the rule, without regard to bounds of utilisation and obstacles."""
        spec, present, outside = self.spec, self._present(name), self._outside(rates)
        factor = self.wanted_rate(rates) / rates.true_rate
        factor = min(max(factor, 1.0 - spec.scale_down_max_factor), 1.0 + spec.scale_up_max_factor)
        asked = math.ceil(factor * present - ROUNDING)
        least, most = min(present, spec.vertex_min_parallelism), max(present, spec.vertex_max_parallelism)
        groups, parts = self._groups(name), self._parts(name)
        count = min(max(asked, least), most, groups)
        if parts is not None and count != present:
            unlike = spec.scaling_key_group_partitions_adjust_mode == "MAXIMIZE_UTILISATION"
            count = aligned(count, present, parts, min(parts, most, groups), least, unlike=unlike)
        if count >= present:
            self._fewer.pop(name, None)
            if count > present and self._ineffective(name, rates):
                return VertexChange(present, outside, limit="its last scaling raised its true rate by too little")
            return VertexChange(count, outside, factor * rates.true_rate, self._limit(name) if count < asked else "")
        return self._delayed(name, present, VertexChange(count, outside, factor * rates.true_rate))

    def _groups(self, name: str) -> int:
        """Maximum parallelism of a vertex: its key groups, or as many as Flink gives it by default."""
        given = key_groups_of(self.deployment.query.operator(name))
        return default_key_groups(self.deployment.plan.parallelism(name)) if given is None else given

    def _limit(self, name: str) -> str:
        """Why a vertex gets fewer subtasks than it needs."""
        most, groups, parts = self.spec.vertex_max_parallelism, self._groups(name), self._parts(name)
        if min(parts or groups, groups) <= most:
            what = "partitions" if parts is not None and parts != groups else "key groups"
            return f"it has {parts or groups} {what}; give it more"
        return f"vertex_max_parallelism is {most}; raise it"

    def _parts(self, name: str) -> int | None:
        """Partitions of a source, or key groups of a keyed vertex, to be dealt evenly; None if there are neither."""
        query = self.deployment.query
        keyed = any(query.partitioning(stream).keeps_keys for stream in query.inputs(name))
        return self._groups(name) if keyed else query.operator(name).parts

    def _ineffective(self, name: str, rates: Evaluated) -> bool:
        """Whether the last scaling made the vertex what it is, and gained less of true rate than was expected."""
        last = self._scaled.get(name)
        if not self.spec.scaling_effectiveness_detection_enabled or last is None:
            return False
        if not last.before < last.after == self._present(name):
            return False
        expected = self.spec.scaling_effectiveness_threshold * (last.expected_rate - last.true_rate)
        return rates.true_rate - last.true_rate < expected

    def _delayed(self, name: str, present: int, change: VertexChange) -> VertexChange:
        """Change to fewer subtasks: none until the interval is over, then to the most that it called for."""
        now_s, length_s = self._window[-1].period.end_s, self._window[-1].period.length_s
        interval_s = self.spec.scale_down_interval_periods * length_s
        called = self._fewer.setdefault(name, [])
        called.append((now_s, change))
        if now_s - called[0][0] < interval_s - ROUNDING:
            return VertexChange(present)
        recent = [each for each in called if each[0] >= now_s - interval_s - ROUNDING]
        return max(recent, key=lambda each: (each[1].subtasks, each[0]))[1]


def _sending(query: Query, chain: Fused) -> list[str]:
    """Operators of a chain that send to others; its last one if none does."""
    return [name for name in chain if any(each.consumer not in chain for each in query.outputs(name))] or [chain[-1]]


def aligned(count: int, present: int, parts: int, most: int, least: int, *, unlike: bool = False) -> int:
    """Number of subtasks for an even share of parts (key groups or partitions), if `count` are called for.

    It is the next number from `count` on that divides the parts, up to `most`, or up to the present number if there are
    more now. If there is none, it is the fewest subtasks of which none has more parts than with `count`; or the present
    number, if that is no change for the side asked for. unlike: `MAXIMIZE_UTILISATION`: a number that does not divide
    the parts will do if it leaves subtasks fewer of them. From `JobVertexScaler` of Flink's autoscaler.
    """
    for number in range(count, (most if count > present else min(present, most)) + 1):
        if parts % number == 0 or (unlike and parts // number < parts // count):
            return number
    fewer = next((number for number in range(count, 0, -1) if parts // number > parts // count), 0)
    number = max(fewer if fewer and parts % fewer == 0 else fewer + 1, least)
    return number if (number > present) == (count > present) and number != present else present
