"""Scales to the subtasks that measured true rates call for: DS2 (Kalavri et al., OSDI 2018)."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from optimizers.policies.room import continues, fixed_operators, rescaled, stood_still
from twin.control import PeriodStatistics, PolicySpec, Reconfiguration
from twin.deployment import Deployment
from twin.query import Query, TimeWindow, Windowed
from twin.workload import group_count

# demand --------------------------------------------------------------------------------------------------------------
# Number of subtasks that a job would keep busy at the offered rates, from true rates as DS2 measures them.
#
# A subtask's true rate is its input over its busy time, whatever backpressure or idleness there was (Kalavri et al.,
# "Three steps is all you need", OSDI 2018). Offered rates and measured selectivities give the input that each operator
# should take. Input that is too much for an operator that cannot be scaled does not reach those after it.


ENOUGH_BUSY_MS = 5.0
"""Busy time (ms a second) below which a true rate is not believed; the last believed rate is kept."""
STEP = 0.5
"""Relative change of a rate from its mean that makes it a new rate: the mean then starts anew."""
NOISE = 0.1
"""Share of a period's arrivals below which a backlog is a passing queue."""
SURE = 4.0
"""Standard deviations of a Poisson count below which a change of a rate is no step, and a queue no backlog."""


@dataclass(frozen=True, slots=True)
class Need:
    """Number of an operator's subtasks busy all the time: at the offered rate, and for the backlog besides.

    slack: part of the load that may be due to where periods end: one record under way at each subtask, here and before.
    """

    load: float
    catch_up: float
    slack: float = 0.0


class Demand:
    """Demand of a job by operator, from the periods given to `add`.

    fixed: operators whose subtasks cannot change. catch_up_s: seconds within which a backlog is to be gone; None: it
    asks for nothing.
    """

    def __init__(self, query: Query, fixed: Collection[str], catch_up_s: float | None, smoothing_periods: int) -> None:
        self.query = query
        self.fixed = fixed
        self.catch_up_s = catch_up_s
        self.smoothing_periods = smoothing_periods
        windows = [operator.window for operator in query.operators if isinstance(operator, Windowed)]
        self.slide_s = max((window.slide for window in windows if isinstance(window, TimeWindow)), default=0.0)
        self._rates: deque[dict[str, float]] = deque(maxlen=smoothing_periods)
        self._work: list[PeriodStatistics] = []
        self._cost_s: dict[str, float] = {}
        self._selectivity: dict[str, float] = {}
        self._under_way: dict[str, float] = {}  # records at the subtasks when measured, as a share of those taken
        self._waiting: dict[str, float] = {}
        self.behind = False
        """Whether there is a backlog."""
        self.falling_behind = False
        """Whether the backlog grows."""

    def add(self, statistics: PeriodStatistics) -> None:
        """Adds a period throughout which the job ran with the same subtasks."""
        sources = {source.name: statistics.operators[source.name] for source in self.query.sources}
        rates = {name: row["arrived"] / statistics.length_s for name, row in sources.items()}
        if any(self._stepped(name, rate, statistics.length_s) for name, rate in rates.items()):
            self._rates.clear()
        self._rates.append(rates)
        before, self._waiting = self._waiting, {}
        for name, row in sources.items():
            if row["backlog"] > max(NOISE * row["arrived"], SURE * math.sqrt(row["arrived"])):
                self._waiting[name] = row["backlog"]
        self.behind = bool(self._waiting)
        self.falling_behind = any(records > before.get(name, 0.0) for name, records in self._waiting.items())
        self._measure(statistics)

    def now(self) -> dict[str, Need]:
        """Demand by the offered rates of the last period."""
        return self._needs(self._rates[-1])

    def lately(self) -> dict[str, Need]:
        """Demand by mean rates of the last few periods; while a backlog grows, by those of the last one if higher."""
        means = {name: sum(rates[name] for rates in self._rates) / len(self._rates) for name in self._rates[-1]}
        if self.falling_behind:
            means = {name: max(mean, self._rates[-1][name]) for name, mean in means.items()}
        return self._needs(means)

    def _stepped(self, name: str, rate: float, length_s: float) -> bool:
        if not self._rates:
            return False
        mean = sum(rates[name] for rates in self._rates) / len(self._rates)
        return abs(rate - mean) > max(STEP * mean, SURE * math.sqrt(mean / length_s))

    def _measure(self, statistics: PeriodStatistics) -> None:
        """Measures work and selectivities over the last periods, at least over a slide of each window: it works in
        bursts."""
        slide_periods = math.ceil(self.slide_s / statistics.length_s - 1e-9)
        if self.falling_behind and slide_periods <= 1:
            self._work = []  # the work of a record may have changed
        self._work = [*self._work, statistics][-max(self.smoothing_periods, slide_periods) :]
        for operator in self.query.operators:
            rows = [(period.operators[operator.name], period.length_s) for period in self._work]
            taken = sum(row["numRecordsIn"] for row, _ in rows)
            there_s = sum(row["parallelism"] * length_s for row, length_s in rows)
            busy_s = sum(row["busyTimeMsPerSecond"] / 1000 * row["parallelism"] * length_s for row, length_s in rows)
            if taken:
                self._under_way[operator.name] = there_s / sum(length_s for _, length_s in rows) / taken
                self._selectivity[operator.name] = sum(row["numRecordsOut"] for row, _ in rows) / taken
            if taken and busy_s * 1000 >= ENOUGH_BUSY_MS * there_s:
                self._cost_s[operator.name] = busy_s / taken

    def _needs(self, offered: Mapping[str, float]) -> dict[str, Need]:
        placement = self._work[-1].placement
        flows: dict[str, tuple[float, float, float]] = {}  # records that leave, as `_inflow` has those that come
        needs: dict[str, Need] = {}
        for operator in self.query.topological:
            name = operator.name
            if operator.is_source:
                waiting = self._waiting.get(name, 0.0)
                rate, extra = offered[name], waiting / self.catch_up_s if self.catch_up_s is not None else 0.0
                slack = 1.0 / self._work[-1].length_s
            else:
                rate, extra, slack = self._inflow(name, flows, len(placement[name]))
            slack += rate * self._under_way.get(name, 0.0)
            cost_s = self._cost_s.get(name)
            if cost_s is not None:
                needs[name] = Need(rate * cost_s, extra * cost_s, slack * cost_s)
                if name in self.fixed:
                    most = len(placement[name]) / cost_s
                    rate, extra = min(rate, most), max(0.0, min(extra, most - rate))
            share = self._selectivity.get(name, 0.0)
            flows[name] = rate * share, extra * share, slack * share
        return needs

    def _inflow(
        self, name: str, flows: Mapping[str, tuple[float, float, float]], parallelism: int
    ) -> tuple[float, float, float]:
        """Records a second that come: at the offered rate, of the backlog, and how unsure the first number is."""
        rate = extra = slack = 0.0
        for stream in self.query.inputs(name):
            copies = self.query.partitioning(stream).count_of_copies(parallelism)
            rate += flows[stream.producer][0] * copies
            extra += flows[stream.producer][1] * copies
            slack += flows[stream.producer][2] * copies
        return rate, extra, slack


# the policy ----------------------------------------------------------------------------------------------------------
# True rates and selectivities give the number of subtasks that the offered rate keeps busy (`demand`), for all
# operators but sources at once; the next whole number is the published optimum. Like DS2's scaling manager, in
# periods: a period after a change is ignored (warm-up time), as is one in which the job stood still for a time;
# nothing changes if no operator would grow, and none would shrink by more than `minor_change` subtasks.
#
# The other options keep it from oscillating, and are ours. `target_utilisation` leaves subtasks idle for a part of the
# time (DS2's scaling factor: 1 / (1 + factor)). Around that lies a dead band, as in the autoscaler of Flink's
# Kubernetes operator: nothing changes while the present subtasks would be between `target_utilisation` less and plus
# `margin` busy. An operator grows by means over `smoothing_periods`: a step of the load or a growing backlog is
# believed in its first period, a small excess is not. It shrinks only after `calm_periods` that all call for fewer
# subtasks (activation time), to the most that any of them called for, except the first, which may have begun before
# the load fell. An operator that grows again after it shrank waits twice as long the next time, up to `patience`
# times. With `catch_up_s` a backlog is to be gone within that time, with subtasks that may be fully busy meanwhile,
# and until then no operator shrinks.


class Ds2Spec(PolicySpec):
    """Settings of policy `ds2`; the defaults are as published."""

    name: Literal["ds2"] = "ds2"
    target_utilisation: Annotated[
        float, Field(gt=0, le=1, description="share of time that subtasks are to be busy")
    ] = 1.0
    margin: Annotated[float, Field(ge=0, description="half of the dead band around it")] = 0.0
    catch_up_s: Annotated[
        float | None,
        Field(gt=0, le=10**10, description="within which a backlog is to be gone; absent: it asks for no subtasks"),
    ] = None
    minor_change: Annotated[
        int, Field(ge=0, description="subtasks by which operators do not shrink unless another change is made")
    ] = 1
    smoothing_periods: Annotated[int, Field(ge=1, description="that the means are taken over")] = 1
    calm_periods: Annotated[int, Field(ge=1, description="that call for fewer subtasks before there are fewer")] = 1
    patience: Annotated[
        int, Field(ge=1, description="times calm_periods, at most, for an operator that had to grow again")
    ] = 1

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.margin < self.target_utilisation:
            raise ValueError(
                f"margin {self.margin:g} is not below target_utilisation {self.target_utilisation:g}, so no operator "
                "could shrink; give 0 <= margin < target_utilisation"
            )
        return self

    def start(self, deployment: Deployment) -> Ds2:
        """Starts the policy for one run."""
        return Ds2(deployment, self)


class Ds2:
    """Scales all operators that can be scaled; new subtasks go to the hosts with the most idle CPU, if there is any."""

    name = "ds2"

    def __init__(self, deployment: Deployment, spec: Ds2Spec) -> None:
        self.deployment = deployment
        self.spec = spec
        self._fixed = fixed_operators(deployment)
        self._demand = Demand(deployment.query, self._fixed, spec.catch_up_s, spec.smoothing_periods)
        self._last: PeriodStatistics | None = None
        self._calm: dict[str, list[int]] = {}
        self._patience: dict[str, int] = {}
        self._shrunk: set[str] = set()  # operators whose last change was to shrink

    def decide(self, statistics: PeriodStatistics) -> Reconfiguration | None:
        """Returns new subtask counts where the present ones do not fit; None if all fit, or without a measurement."""
        called = self.subtasks_wanted(statistics)
        present = {name: len(places) for name, places in statistics.placement.items()}
        query, plan = self.deployment.query, self.deployment.plan
        groups = {each.name: group_count(query, each.name, plan.parallelism(each.name)) for each in query.operators}
        most = {name: count for name, count in groups.items() if count is not None}  # more subtasks would be idle
        limits = {
            name: f"it has {most[name]} key groups; give it more"
            for name, count in called.items()
            if count > most.get(name, count) and name not in self._fixed
        }
        wanted = {name: min(count, most.get(name, count)) for name, count in called.items()}
        free = [(wanted[name], present[name]) for name in wanted if name not in self._fixed]
        if not any(count > now or count < now - self.spec.minor_change for count, now in free):
            wanted = {name: max(count, present[name]) for name, count in wanted.items()}
        self._shrunk |= {name for name, count in wanted.items() if count < present[name]}
        return rescaled(self.deployment, statistics, wanted, self._fixed, limits)

    def subtasks_wanted(self, statistics: PeriodStatistics) -> dict[str, int]:
        """Number of subtasks wanted of each operator that was ever busy, whether it can have them or not."""
        last, self._last = self._last, statistics
        if last is not None and not continues(last, statistics):
            self._calm.clear()
            return {}
        if stood_still(statistics, self.deployment):
            return {}
        demand = self._demand
        demand.add(statistics)
        now, lately = demand.now(), demand.lately()
        return {name: self._count(name, len(statistics.placement[name]), now[name], lately[name]) for name in now}

    def _count(self, name: str, present: int, now: Need, lately: Need) -> int:
        """Subtasks wanted of an operator: it grows at once, shrinks after calm periods, not within the dead band."""
        calm = self._calm.setdefault(name, [])
        target, margin = self.spec.target_utilisation, self.spec.margin
        if (lately.load - lately.slack) / min(1.0, target + margin) + lately.catch_up > present:
            calm.clear()
            return self._grown(name, self._wanted(lately))
        few, catching_up = self._wanted(now), self.spec.catch_up_s is not None and self._demand.behind
        if catching_up or few >= present or now.load / (target - margin) >= present:
            calm.clear()
            return present
        calm.append(few)
        if len(calm) < self.spec.calm_periods * self._patience.get(name, 1):
            return present
        count = max(calm[1:] or calm)
        calm.clear()
        return count

    def _grown(self, name: str, count: int) -> int:
        if name in self._shrunk:
            self._shrunk.remove(name)
            self._patience[name] = min(self.spec.patience, 2 * self._patience.get(name, 1))
        return count

    def _wanted(self, need: Need) -> int:
        return max(1, math.ceil((need.load - need.slack) / self.spec.target_utilisation + need.catch_up))
