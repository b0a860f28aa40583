"""Policies that move subtasks between hosts: relief of the hottest host, and an online scheduler."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from typing import Annotated, Any, Literal

from pydantic import Field

from optimizers.policies.room import (
    TOO_DEAR,
    RestartAccount,
    can_move,
    continues,
    cores_by_subtask,
    hosts_of,
    stays,
    told,
)
from twin.control import PeriodStatistics, PolicySpec, Reconfiguration
from twin.deployment import Deployment
from twin.events import Move
from twin.partitionings import Ends

# relief of the hottest host ------------------------------------------------------------------------------------------
# Takes load off the hottest host: moves one subtask from there to the host with the most idle CPU.
#
# It makes one move at a time, of the busiest subtask that fits the other host, and none while no host is above the
# threshold. A host must have been hot for two periods in a row, between which nothing moved: work caught up after an
# outage is soon done, and a period in which a subtask left tells nothing of its host now. Where the hottest host cannot
# be relieved, the next one is. Where a move restarts the job, it is made only when it is worth a restart
# (`RestartAccount`).


class RelieveSpec(PolicySpec):
    """Settings of policy `relieve`."""

    name: Literal["relieve"] = "relieve"
    hot: Annotated[float, Field(gt=0, le=1, description="CPU utilisation from which a host is relieved")] = 0.85
    gain: Annotated[
        float, Field(ge=0, lt=1, description="a move must leave the other host so much less utilised than the hot one")
    ] = 0.1

    @property
    def periods_before_acting(self) -> int:
        """Number of periods before the policy can act: a host is hot after two."""
        return 2

    def start(self, deployment: Deployment) -> Relieve:
        """Starts the policy for one run."""
        return Relieve(deployment, self)


class Relieve:
    """Policy `relieve` in one run; it remembers the last period."""

    name = "relieve"

    def __init__(self, deployment: Deployment, spec: RelieveSpec) -> None:
        self.deployment = deployment
        self.spec = spec
        self._fixed = stays(deployment)
        self._last: PeriodStatistics | None = None
        self._account = RestartAccount(deployment)

    def decide(self, statistics: PeriodStatistics) -> Reconfiguration | None:
        """Returns one move off the hottest host that can be relieved, or None."""
        last, self._last = self._last, statistics
        self._account.add(statistics)
        if last is None or not continues(last, statistics):
            return None
        cores = {host.name: host.left_percent / 100 for host in self.deployment.cluster.hosts}
        shares = {name: float(row["cpuUtilisation"]) for name, row in statistics.hosts.items()}
        before = {name: float(row["cpuUtilisation"]) for name, row in last.hosts.items()}
        hot = [name for name, share in shares.items() if min(share, before.get(name, 0.0)) >= self.spec.hot]
        used = {name: capacity * shares.get(name, 0.0) for name, capacity in cores.items()}
        for name in sorted(hot, key=lambda name: -shares[name]):
            found = self._move_from(name, statistics, cores, used)
            if found is not None:
                move, load = found
                cost = self._account.cost(statistics, load)
                if not self._account.affords(cost):
                    return TOO_DEAR
                self._account.pay(cost)
                return Reconfiguration(moves=(move,), reason=f"{name} is {shares[name]:.0%} utilised")
        if self._fixed.keys() >= statistics.placement.keys():
            return Reconfiguration(warnings=(f"can move no subtask: {told(self._fixed)}",))
        return Reconfiguration(reason=f"no subtask of {', '.join(sorted(hot))} fits another host") if hot else None

    def _move_from(
        self, name: str, statistics: PeriodStatistics, cores: Mapping[str, float], used: Mapping[str, float]
    ) -> tuple[Move, float] | None:
        """Move of the busiest subtask that may go, and the utilisation of the fullest host afterwards; subtasks of one
        operator count as equal."""
        busy = {operator: row["busyTimeMsPerSecond"] for operator, row in statistics.operators.items()}
        work, hosts = cores_by_subtask(statistics, cores, self.deployment), hosts_of(statistics)
        here = [key for key in work if hosts[key] == name and busy[key[0]] > 0.0]
        for operator, subtask in sorted(here, key=lambda key: (-busy[key[0]], key)):
            load = work[operator, subtask]
            target = min(cores, key=lambda host: ((used[host] + load) / cores[host], host))
            if target == name or (used[target] + load) / cores[target] >= used[name] / cores[name] - self.spec.gain:
                continue
            move = Move(operator=operator, subtask=subtask, to=target)
            if can_move(move, self.deployment, statistics.placement):
                after = {**used, name: used[name] - load, target: used[target] + load}
                return move, max(after[host] / cores[host] for host in after)
        return None


# an online scheduler by measured traffic -----------------------------------------------------------------------------
# Monitors a running job and deploys it anew: the traffic-based online scheduler of Aniello, Baldoni, Querzoni (2013).
#
# "Adaptive Online Scheduling in Storm", DEBS 2013, section 5: the rate of records between any two subtasks and the CPU
# that each takes are measured; the pairs are taken in descending order of traffic, and each is placed, under the
# capacity of the hosts, where the traffic between hosts grows least and then load is lowest: on the hosts that its two
# subtasks have already, or on the least loaded one. It is Costream's online baseline (Exp 2b, refs. [1] and [11]). As
# in the paper, CPU capacities are known, links are not: all traffic between hosts counts alike.
#
# The paper leaves to configuration what is decided here: the job is stable once its records a second, of all operators
# together, have stayed within `change` over `stable_periods`; a host may be filled to `capacity`; a new schedule is
# worth its moves if traffic between hosts falls by `improvement`, or if a host is above `capacity` now and the fullest
# will be less full by as much. Storm's slots have no counterpart here: hosts take the place of workers.


Subtask = tuple[str, int]
Schedule = dict[Subtask, str]
"""Host of each subtask."""


class MonitoringSpec(PolicySpec):
    """Settings of policy `monitoring`."""

    name: Literal["monitoring"] = "monitoring"
    stable_periods: Annotated[int, Field(ge=1, description="over which a job is stable before it is scheduled")] = 3
    change: Annotated[float, Field(ge=0, le=1, description="of the records a second, within which it is stable")] = 0.1
    capacity: Annotated[float, Field(gt=0, le=1, description="share of a host that may be filled")] = 0.8
    improvement: Annotated[float, Field(ge=0, lt=1, description="share by which a schedule must be better")] = 0.1
    most_periods: Annotated[
        int, Field(ge=1, description="after which a job is scheduled that does not become stable")
    ] = 20

    @property
    def periods_before_acting(self) -> int:
        """Number of periods before the policy can act: those that must be alike."""
        return self.stable_periods

    def start(self, deployment: Deployment) -> Monitoring:
        """Starts the policy for one run."""
        return Monitoring(deployment, self)


@dataclass(frozen=True)
class MeasuredLoads:
    """Loads measured over some periods. cores: of each host. work: reference cores that each subtask took. traffic:
    records a second between subtasks. fixed: operators whose subtasks stay where they are."""

    cores: Mapping[str, float]
    work: Mapping[Subtask, float]
    traffic: Mapping[tuple[Subtask, Subtask], float]
    fixed: Collection[str] = ()

    @cached_property
    def partners(self) -> Mapping[Subtask, Mapping[Subtask, float]]:
        """Partners of each subtask, with the records a second that they exchange."""
        found: dict[Subtask, dict[Subtask, float]] = {subtask: {} for subtask in self.work}
        for (u, v), rate in self.traffic.items():
            found[u][v] = found[v][u] = rate
        return found

    def between_hosts(self, schedule: Schedule) -> float:
        """Records a second that go from host to host under a schedule."""
        return sum(rate for (u, v), rate in self.traffic.items() if schedule[u] != schedule[v])

    def fullest(self, schedule: Schedule) -> float:
        """Highest utilisation of a host under a schedule."""
        load = dict.fromkeys(self.cores, 0.0)
        for subtask, host in schedule.items():
            load[host] += self.work[subtask]
        return max(load[host] / self.cores[host] for host in load)


class Monitoring:
    """Monitor in one run; it remembers the periods since the last deployment."""

    name = "monitoring"

    def __init__(self, deployment: Deployment, spec: MonitoringSpec) -> None:
        self.deployment = deployment
        self.spec = spec
        self.cores = {host.name: host.left_percent / 100 for host in deployment.cluster.hosts}
        self._fixed = stays(deployment)
        self._seen: deque[PeriodStatistics] = deque(maxlen=spec.most_periods)

    def decide(self, statistics: PeriodStatistics) -> Reconfiguration | None:
        """Returns all moves to a better schedule; None while the job settles, or if no schedule is worth its moves."""
        if self._fixed.keys() >= statistics.placement.keys():
            return Reconfiguration(warnings=(f"can move no subtask: {told(self._fixed)}",))
        if self._seen and not continues(self._seen[-1], statistics):
            self._seen.clear()  # the deployment has changed, or the job was down meanwhile
        self._seen.append(statistics)
        if not self._stable():
            return None
        now, measured = hosts_of(statistics), MeasuredLoads(self.cores, self._work(), self._traffic(), self._fixed)
        moves = self._moves(now, scheduled(measured, now, self.spec), statistics)
        after = now | {(move.operator, move.subtask or 0): str(move.to) for move in moves}
        reason = worth(measured, now, after, self.spec)
        if not reason:
            return None
        self._seen.clear()
        return Reconfiguration(moves=tuple(moves), reason=reason)

    def _moves(self, now: Schedule, new: Schedule, statistics: PeriodStatistics) -> list[Move]:
        """Moves from one schedule to another that can be carried out."""
        moves = (
            Move(operator=operator, subtask=number, to=host)
            for (operator, number), host in new.items()
            if host != now[operator, number]
        )
        return [move for move in moves if can_move(move, self.deployment, statistics.placement)]

    def _stable(self) -> bool:
        recent = list(self._seen)[-self.spec.stable_periods :]
        if len(recent) < self.spec.stable_periods:
            return False
        if len(self._seen) == self.spec.most_periods:
            return True
        rates = [sum(row["numRecordsOut"] for row in period.operators.values()) / period.length_s for period in recent]
        return max(rates) - min(rates) <= self.spec.change * max(rates)

    def _work(self) -> dict[Subtask, float]:
        """Mean reference cores of each subtask over the periods seen."""
        work: dict[Subtask, float] = {}
        for period in self._seen:
            for subtask, cores in cores_by_subtask(period, self.cores, self.deployment).items():
                work[subtask] = work.get(subtask, 0.0) + cores / len(self._seen)
        return work

    def _traffic(self) -> dict[tuple[Subtask, Subtask], float]:
        """Mean records a second between subtasks over the periods seen. An operator's output goes on every stream, and
        is dealt to subtasks evenly."""
        query, rates = self.deployment.query, dict[tuple[Subtask, Subtask], float]()
        for statistics in self._seen:
            for stream in query.streams:
                ends = [len(statistics.placement[name]) for name in (stream.producer, stream.consumer)]
                sent = statistics.operators[stream.producer]["numRecordsOut"] / statistics.length_s / ends[0]
                how = query.partitioning(stream)
                shares = [how.shares(Ends(u, ends[1], ends[1], producers=ends[0])) for u in range(ends[0])]
                for u, v in product(range(ends[0]), range(ends[1])):
                    pair = (stream.producer, u), (stream.consumer, v)
                    rates[pair] = rates.get(pair, 0.0) + sent * shares[u][v] / len(self._seen)
        return rates


def scheduled(measured: MeasuredLoads, now: Schedule, spec: MonitoringSpec) -> Schedule:
    """Greedy schedule, from one of what is fixed: overfull hosts count first, then traffic, then load; ties stay in
    place."""
    scheduling = _Scheduling(measured, now, spec.capacity)
    for pair in sorted(measured.traffic, key=lambda subtask: (-measured.traffic[subtask], subtask)):
        scheduling.place(pair)
    return scheduling.new


class _Scheduling:
    """Schedule while it grows. new: the schedule so far. used: reference cores of hosts under it."""

    def __init__(self, measured: MeasuredLoads, now: Schedule, capacity: float) -> None:
        self.measured, self.now, self.capacity = measured, now, capacity
        self.new: Schedule = {subtask: host for subtask, host in now.items() if subtask[0] in measured.fixed}
        self.used = dict.fromkeys(measured.cores, 0.0)
        for subtask, host in self.new.items():
            self.used[host] += measured.work[subtask]

    def place(self, pair: tuple[Subtask, Subtask]) -> None:
        """Puts each of two subtasks on a host of either, or on the least loaded one, unless it is fixed."""
        new, used, cores = self.new, self.used, self.measured.cores
        for subtask in pair:
            if subtask in new:
                used[new[subtask]] -= self.measured.work[subtask]
        least = min(used, key=lambda host: (used[host] / cores[host], -cores[host], host))
        open_to = sorted({least, *(new[subtask] for subtask in pair if subtask in new)})
        choices = [[self.now[subtask]] if subtask[0] in self.measured.fixed else open_to for subtask in pair]
        hosts = min(product(*choices), key=partial(self._cost, pair))
        for subtask, host in zip(pair, hosts, strict=True):
            new[subtask] = host
            used[host] += self.measured.work[subtask]

    def _cost(self, pair: tuple[Subtask, Subtask], places: tuple[str, ...]) -> tuple[Any, ...]:
        """Cost of two places: excess of the fuller host over its capacity; records a second between these hosts and
        those of all partners placed so far; the higher utilisation; which subtasks move."""
        measured, pair_on = self.measured, dict(zip(pair, places, strict=True))
        load = {host: self.used[host] for host in places}
        for subtask, host in pair_on.items():
            load[host] += measured.work[subtask]
        fill = max(load[host] / measured.cores[host] for host in places)
        inside = measured.traffic[pair] if places[0] != places[1] else 0.0
        others = ((u, v, rate) for u in pair for v, rate in measured.partners[u].items() if v not in pair)
        leaving = inside + sum(rate for u, v, rate in others if v in self.new and self.new[v] != pair_on[u])
        moves = [host != self.now[subtask] for subtask, host in pair_on.items()]
        return max(0.0, fill - self.capacity), leaving, fill, moves, places


def worth(measured: MeasuredLoads, now: Schedule, new: Schedule, spec: MonitoringSpec) -> str:
    """Reason why a new schedule is worth its moves; empty if it is not."""
    fullest, next_fullest = measured.fullest(now), measured.fullest(new)
    before, after = measured.between_hosts(now), measured.between_hosts(new)
    if fullest > spec.capacity and next_fullest < fullest - spec.improvement:
        return f"a host is {fullest:.0%} utilised"
    if next_fullest <= max(spec.capacity, fullest) and after < (1 - spec.improvement) * before:
        return f"{before:.3g} records/s between hosts would be {after:.3g}"
    return ""
