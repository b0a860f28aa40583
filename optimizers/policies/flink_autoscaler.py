"""Scales as the autoscaler of Flink's Kubernetes operator would, with options under its names.

Options are those of `job.autoscaler.*`. Each operator's true processing rate, its input over its busy time, is compared
with the rate that it should take: the arriving rate, passed on by measured output ratios, at `target.utilization`; and
its part of the sources' lag and of the arrivals during `restart.time`, to be caught up within `catch-up.duration`.
Nothing changes while every operator that would change is within `target.utilization.boundary` of the target. While a
source lags by more than `backlog-processing.lag-threshold`, replicas may be fully busy and none are taken away.

Rates are means over `metrics.window`; for `stabilization.interval` after each change nothing is measured. Fewer
replicas come only after `scale-down.interval`, as many as the most that was called for in it. Keyed operators get
replica counts that divide their key groups, if possible.

Flink's durations are in minutes, and its autoscaler looks about once a minute: here a period stands for a minute. Left
out: true rates observed while catching up, detection of ineffective scaling, memory tuning, scaling along forward
streams; busy times are means over replicas (`metrics.busy-time.aggregator: AVG`).
"""

from __future__ import annotations

import math
from collections import deque
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from optimizers.policies.room import continues, fixed_operators, rescaled, stood_still
from twin.control import PeriodStatistics, PolicySpec, Reconfiguration
from twin.deployment import Deployment
from twin.keys import key_groups_of

ROUNDING = 1e-9

Periods = Annotated[int, Field(ge=0, le=10**6)]


class FlinkAutoscalerSpec(PolicySpec):
    """Settings of policy `flink-autoscaler`; defaults are Flink's, with periods for minutes."""

    name: Literal["flink-autoscaler"] = "flink-autoscaler"
    target_utilization: Annotated[float, Field(gt=0, le=1, description="share of time that replicas are busy")] = 0.7
    target_utilization_boundary: Annotated[float, Field(ge=0, le=1, description="allowed on both sides of it")] = 0.3
    metrics_window_periods: Annotated[int, Field(ge=1, le=10**6, description="that means are taken over")] = 15
    stabilization_interval_periods: Annotated[Periods, Field(description="after a change, not measured")] = 5
    catch_up_duration_periods: Annotated[Periods, Field(description="for lag to be made up for; 0: it is left out")] = (
        30
    )
    restart_time_periods: Annotated[Periods, Field(description="that a change is expected to stop the job for")] = 5
    backlog_processing_lag_threshold_periods: Annotated[
        Periods, Field(description="of lag, from which on replicas may be fully busy and none go")
    ] = 5
    scale_down_interval_periods: Annotated[Periods, Field(description="that fewer replicas must be called for")] = 60
    scale_down_max_factor: Annotated[float, Field(ge=0, le=1, description="of the replicas may go at once")] = 0.6
    scale_up_max_factor: Annotated[float, Field(gt=0, description="times as many may come at once")] = 100_000.0
    vertex_min_parallelism: Annotated[int, Field(ge=1, description="replicas of an operator")] = 1
    vertex_max_parallelism: Annotated[int, Field(ge=1, description="replicas of an operator")] = 200

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.vertex_min_parallelism > self.vertex_max_parallelism:
            raise ValueError("vertex_min_parallelism is above vertex_max_parallelism; give it at most that")
        return self

    @property
    def periods_before_acting(self) -> int:
        """Number of periods before the policy can act: the stabilization interval and a full metrics window."""
        return self.stabilization_interval_periods + self.metrics_window_periods

    def start(self, deployment: Deployment) -> FlinkAutoscaler:
        """Starts the policy for one run."""
        return FlinkAutoscaler(deployment, self)


class Evaluated(NamedTuple):
    """Rates of an operator over the window, in tuples a second. true_rate: of all its replicas; inf if nothing came."""

    target_rate: float
    catch_up_rate: float
    true_rate: float

    def capacity(self, utilization: float, restart_share: float = 0.0) -> float:
        """Rate that the operator needs to be that busy. restart_share: restart time over `catch-up.duration`."""
        if utilization <= 0.0:
            return math.inf
        at_utilization = self.target_rate / min(1.0, utilization)
        return self.catch_up_rate + self.target_rate * restart_share + at_utilization


class FlinkAutoscaler:
    """Flink's autoscaler in one run. window: periods measured. It notes since when operators should shrink."""

    name = "flink-autoscaler"

    def __init__(self, deployment: Deployment, spec: FlinkAutoscalerSpec) -> None:
        self.deployment = deployment
        self.spec = spec
        self._fixed = fixed_operators(deployment)
        self.window: deque[PeriodStatistics] = deque(maxlen=spec.metrics_window_periods)
        self._skip = spec.stabilization_interval_periods
        self._last: PeriodStatistics | None = None
        self._fewer: dict[str, list[tuple[float, int]]] = {}  # (time, replicas called for), since the first time

    def decide(self, statistics: PeriodStatistics) -> Reconfiguration | None:
        """Returns new replica counts once the window is full and an operator is out of bounds; else None."""
        last, self._last = self._last, statistics
        if (last is not None and not continues(last, statistics)) or stood_still(statistics, self.deployment):
            self.window.clear()
            self._skip = self.spec.stabilization_interval_periods
        if self._skip:
            self._skip -= 1
            return None
        self.window.append(statistics)
        if len(self.window) < self.spec.metrics_window_periods:
            return None
        return rescaled(self.deployment, statistics, self.replicas_wanted(), self._fixed)

    def replicas_wanted(self) -> dict[str, int]:
        """Numbers of replicas of the operators that change, or would if they could be scaled; none of those if all that
        can be are within the bounds."""
        evaluated, lagging = self.evaluated(), self._lagging()
        wanted = {
            operator.name: self._wanted(operator.name, evaluated[operator.name])
            for operator in self.deployment.query.operators
        }
        changed = {name: count for name, count in wanted.items() if count != self._present(name)}
        out = {name for name in changed if self._out_of_bounds(evaluated[name], lagging)}
        acts = not out <= self._fixed.keys()
        return {name: count for name, count in changed.items() if (name in out if name in self._fixed else acts)}

    # what is measured ------------------------------------------------------------------------------------------------

    def evaluated(self) -> dict[str, Evaluated]:
        """Rates of all operators over the window, which must not be empty."""
        query, found = self.deployment.query, dict[str, Evaluated]()
        seconds = sum(period.length_s for period in self.window)
        catch_up_s = self.spec.catch_up_duration_periods * self.window[-1].length_s
        for operator in query.topological:
            name = operator.name
            if operator.is_source:
                target = self._sum(name, "arrived") / seconds
                lag = self.window[-1].operators[name]["backlog"]
                catch_up = lag / catch_up_s if catch_up_s else 0.0
            else:
                target = catch_up = 0.0
                for stream in query.inputs(name):
                    copies = query.partitioning(stream).count_of_copies(self._present(name))
                    ratio = self._output_ratio(stream.producer) * copies
                    target += found[stream.producer].target_rate * ratio
                    catch_up += found[stream.producer].catch_up_rate * ratio
            found[name] = Evaluated(target, catch_up, self._true_rate(name))
        return found

    def _true_rate(self, name: str) -> float:
        """True rate of an operator: input over busy time; inf where nothing came, as nothing is known then."""
        busy_s = sum(period.operators[name]["busyTimeMsPerSecond"] / 1000 * period.length_s for period in self.window)
        taken = self._sum(name, "numRecordsIn")
        return taken / busy_s if taken and busy_s else math.inf

    def _output_ratio(self, name: str) -> float:
        taken = self._sum(name, "numRecordsIn")
        return self._sum(name, "numRecordsOut") / taken if taken else 0.0

    def _lagging(self) -> bool:
        """Whether a source lags by more than the threshold, at the rate at which it takes tuples."""
        seconds = sum(period.length_s for period in self.window)
        last = self.window[-1]
        allowed_s = self.spec.backlog_processing_lag_threshold_periods * last.length_s
        rates = {
            source.name: self._sum(source.name, "numRecordsIn") / seconds for source in self.deployment.query.sources
        }
        return any(last.operators[name]["backlog"] > allowed_s * rate for name, rate in rates.items())

    def _sum(self, name: str, column: str) -> float:
        return float(sum(period.operators[name][column] for period in self.window))

    def _present(self, name: str) -> int:
        return len(self.window[-1].placement[name])

    # what follows from it --------------------------------------------------------------------------------------------

    @property
    def _restart_share(self) -> float:
        spec = self.spec
        return spec.restart_time_periods / spec.catch_up_duration_periods if spec.catch_up_duration_periods else 0.0

    def _out_of_bounds(self, evaluated: Evaluated, lagging: bool) -> bool:
        target, boundary = self.spec.target_utilization, self.spec.target_utilization_boundary
        upper, lower = (1.0, 0.0) if lagging else (target + boundary, target - boundary)
        return evaluated.true_rate < evaluated.capacity(upper) or evaluated.true_rate > evaluated.capacity(
            lower, self._restart_share
        )

    def wanted_rate(self, evaluated: Evaluated) -> float:
        """Rate that an operator should be capable of taking, in tuples a second."""
        return evaluated.capacity(self.spec.target_utilization, self._restart_share)

    def _wanted(self, name: str, evaluated: Evaluated) -> int:
        spec, present = self.spec, self._present(name)
        factor = self.wanted_rate(evaluated) / evaluated.true_rate
        factor = min(max(factor, 1.0 - spec.scale_down_max_factor), 1.0 + spec.scale_up_max_factor)
        count = max(math.ceil(factor * present - ROUNDING), min(present, spec.vertex_min_parallelism))
        most = max(present, spec.vertex_max_parallelism)
        groups = key_groups_of(self.deployment.query.operator(name))
        count = min(count, most) if groups is None else spread(min(count, most, groups), groups, min(groups, most))
        if count >= present:
            self._fewer.pop(name, None)
            return count
        return self._delayed(name, present, count)

    def _delayed(self, name: str, present: int, count: int) -> int:
        """Replicas of an operator that should shrink: as now until the interval is over, then the most called for."""
        last = self.window[-1]
        called = self._fewer.setdefault(name, [])
        called.append((last.end_s, count))
        if last.end_s - called[0][0] < self.spec.scale_down_interval_periods * last.length_s - ROUNDING:
            return present
        del self._fewer[name]
        return max(count for _, count in called)


def spread(count: int, groups: int, most: int) -> int:
    """Next higher number of replicas that divides the key groups; else the fewest that leave no replica more groups.

    This is Flink's `scaling.key-group.partitions.adjust.mode: EVENLY_SPREAD`, up to `most` replicas.
    """
    for replicas in range(count, most + 1):
        if groups % replicas == 0:
            return replicas
    for replicas in range(count, 0, -1):
        if groups // replicas > groups // count:
            return replicas if groups % replicas == 0 else replicas + 1
    return count
