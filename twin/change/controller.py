"""What orders changes of a running job: its policy, which a controller asks at the end of each period, and the events
of the scenario."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import groupby, takewhile
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from twin.change.checkpoint import Coordinator, FreeCheckpoints, NoCheckpoints
from twin.change.failover import Failover, Restarts
from twin.change.reconfiguration import Reconfigurer
from twin.change.running_job import Process, RunningJob
from twin.control import KeyGroupStatistics, PeriodStatistics, Policy, Reconfiguration
from twin.errors import BadInput
from twin.event_checks import check_move, check_rescale
from twin.events import (
    AnyEvent,
    Combine,
    Failure,
    LinkDegradation,
    Migration,
    RateChange,
    Repartition,
    Scale,
    Skew,
    SlowDown,
    Split,
)
from twin.operators.key_groups import KeyGroups
from twin.profiles import EngineProfile, Rescaling
from twin.world.meters import Row
from twin.world.parts import Card, Task

# the controller ------------------------------------------------------------------------------------------------------


class Controller:
    """Gives a policy the statistics of each period, and carries out its decision `latency_s` after the period's end."""

    def __init__(self, change: Reconfigurer, policy: Policy, latency_s: float) -> None:
        self.change = change
        self.job = change.job
        self.env = change.env
        self.policy = policy
        self.latency_s = latency_s
        self._noted = ""
        self.observer = Observer(self.job)
        self.job.statistics.listeners.append(self._period_ended)

    def _period_ended(self, operators: Sequence[Row], hosts: Sequence[Row]) -> None:
        availability = self.job.availability
        statistics = self.observer.close(operators, hosts)
        if availability.outage is not None or availability.changes:
            return
        decision = self.policy.decide(statistics)
        if decision is None:
            return
        self._warn(decision.warnings)
        if not (decision.moves or decision.rescales or decision.operations):
            self._note(decision.reason)
            return
        self._noted = ""
        self._check(decision)
        availability.changes += 1
        self.env.process(self._apply(decision))

    def _warn(self, warnings: Sequence[str]) -> None:
        told = self.job.world.ledger.warnings
        lines = (f"policy {self.policy.name!r} {warning}" for warning in warnings)
        told += [line for line in lines if line not in told]

    def _note(self, reason: str) -> None:
        """Records why nothing changes, if the reason is a new one."""
        if reason and reason != self._noted:
            record = self.job.world.ledger.record("decision", self.policy.name, self.env.now)
            record.detail, record.end_s = {"reason": reason, "moves": 0, "rescales": {}}, self.env.now
        self._noted = reason

    def _check(self, decision: Reconfiguration) -> None:
        """Raises BadInput if a policy orders something impossible."""
        deployment, whose = self.job.world.deployment, f"policy {self.policy.name!r}"
        placement = {name: tuple(map(str, tasks)) for name, tasks in self.job.world.tasks.items()}
        try:
            for rescale in decision.rescales:
                check_rescale(rescale, deployment, whose)
            for move in decision.moves:
                check_move(move, deployment, whose, None if decision.rescales else placement)
        except ValueError as error:
            raise BadInput(str(error)) from None

    def _apply(self, decision: Reconfiguration) -> Process:
        record = self.job.world.ledger.record("decision", self.policy.name, self.env.now)
        record.detail = {
            "reason": decision.reason,
            "moves": len(decision.moves),
            "rescales": {rescale.operator: len(rescale.placement) for rescale in decision.rescales},
            **({"operations": [event.kind for event in decision.operations]} if decision.operations else {}),
            **decision.figures,
        }
        if self.latency_s > 0.0:
            yield self.env.timeout(self.latency_s)
        rescales = [self.change.rescale(rescale) for rescale in decision.rescales]
        operations, moves = [self.change.operate(event) for event in decision.operations], self._moves(decision)
        together = self.change.restarts is not None  # all changes share one restart
        for requests in [operations, rescales + moves] if together else [rescales, operations, moves]:
            if requests:
                yield self.env.all_of([self.env.process(request) for request in requests])
        self.job.availability.changes -= 1
        record.end_s = self.env.now

    def _moves(self, decision: Reconfiguration) -> list[Process]:
        """Processes of the moves: subtasks one by one, all key groups of an operator together."""
        whole = [self.change.move(move) for move in decision.moves if move.subtask is not None]
        operator = attrgetter("operator")
        parts = sorted((move for move in decision.moves if move.subtask is None), key=operator)
        grouped = [list(moves) for _, moves in groupby(parts, key=operator)]
        return whole + [self.change.regroup(moves, retire=decision.retire) for moves in grouped]


# the timeline of events ----------------------------------------------------------------------------------------------
# Each event of a scenario becomes a process of the simulation.


STEPS = 10
"""Number of steps of a gradual skew."""


def play(job: RunningJob, events: Sequence[AnyEvent], deciding: bool) -> Reconfigurer:
    """Plays events when they are due, those of the same time in the order listed. deciding: whether a policy may order
    changes. Returns the object that changes the running job."""
    failures = [event for event in events if isinstance(event, Failure)]
    restarting = restarts(job.world.engine.rescaling, events, deciding)
    checkpoints = job.checkpoints = _checkpoints(job, bool(failures), restarting)
    failover = Failover(checkpoints) if isinstance(checkpoints, FreeCheckpoints) else None
    change = Reconfigurer(job, Restarts(job, failover) if failover is not None and restarting else None)
    timeline = Timeline(change)
    for event in events:
        if not isinstance(event, Failure):
            job.env.process(timeline.at(event))
    if isinstance(checkpoints, FreeCheckpoints) and failover is not None:
        if isinstance(checkpoints, Coordinator):
            checkpoints.restart = failover.give_up
        job.env.process(checkpoints.run())
        for failure in failures:
            job.env.process(failover.fail(failure))
    return change


def restarts(rescaling: Rescaling, events: Sequence[AnyEvent], deciding: bool) -> bool:
    """Whether changes of the plan may stop the job."""
    return rescaling.stops and (deciding or any(isinstance(event, Migration | Scale) for event in events))


def reads_again(rescaling: Rescaling, events: Sequence[AnyEvent], deciding: bool) -> bool:
    """Whether failures or restarts may make sources read records a second time."""
    failing = any(isinstance(event, Failure) for event in events)
    return failing or (rescaling.how == "reactive" and restarts(rescaling, events, deciding))


def _checkpoints(job: RunningJob, failing: bool, restarting: bool) -> NoCheckpoints:
    if job.world.checkpoints is not None:
        return Coordinator(job, job.world.checkpoints)
    if failing or restarting:
        every_one = restarting and job.world.engine.rescaling.how == "reactive"
        return FreeCheckpoints(job, job.world.settings.checkpoint_interval_s, every_one)
    return NoCheckpoints()


class Timeline:
    """Carries events out. Factors of rates and weights are relative to their first values, not to earlier changes."""

    def __init__(self, change: Reconfigurer) -> None:
        self.change = change
        self.world = change.world
        self.env = change.env
        self._rate_factors: dict[str, float] = {}
        self._skews: dict[str, tuple[np.ndarray, np.ndarray]] = {}

    def at(self, event: AnyEvent) -> Process:
        """Waits until an event is due, and carries it out."""
        yield self.env.timeout(event.at_s)
        match event:
            case RateChange():
                self._change_rate(event)
            case SlowDown():
                yield from self._slow_down(event)
            case LinkDegradation():
                yield from self._degrade(event)
            case Migration():
                yield from self.change.move(event)
            case Skew():
                yield from self._skew(event)
            case Scale():
                yield from self.change.rescale(event)
            case Repartition() | Split() | Combine():
                yield from self.change.operate(event)

    def _change_rate(self, event: RateChange) -> None:
        factor = event.factor
        if factor is None:
            assert event.rate_per_s is not None
            factor = event.rate_per_s / self.world.deployment.workload.arrivals[event.source].mean_rate_per_s
        self.world.ledger.record(event.kind, event.source, self.env.now, factor=factor).end_s = self.env.now
        for broker in self.world.brokers[event.source]:
            broker.scale(factor / self._rate_factors.get(event.source, 1.0))
        self._rate_factors[event.source] = factor

    def _slow_down(self, event: SlowDown) -> Process:
        record = self.world.ledger.record(event.kind, event.host, self.env.now, factor=event.factor)
        self.change.job.throttle(event.host, event.factor)
        if event.duration_s is not None:
            yield self.env.timeout(event.duration_s)
            self.change.job.throttle(event.host, 1.0 / event.factor)
            record.end_s = self.env.now

    def _degrade(self, event: LinkDegradation) -> Process:
        cards = self._degraded(event)
        factors = {"bandwidth_factor": event.bandwidth_factor, "latency_factor": event.latency_factor}
        record = self.world.ledger.record(event.kind, event.component, self.env.now, **factors)
        for card in cards:
            card.degrade(event.bandwidth_factor, event.latency_factor)
        if event.duration_s is not None:
            yield self.env.timeout(event.duration_s)
            for card in cards:
                card.degrade(1.0 / event.bandwidth_factor, 1.0 / event.latency_factor)
            record.end_s = self.env.now

    def _degraded(self, event: LinkDegradation) -> list[Card]:
        """Cards of an event: a host's card, or both directions of a link."""
        if event.link is None:
            assert event.host is not None
            return [self.world.network.card(event.host)]
        return [self.world.links["->".join(ends)] for ends in (event.link, event.link[::-1])]

    def _skew(self, event: Skew) -> Process:
        keys, groups = self.world.key_groups[event.operator], list(event.key_groups)
        base_g, factor_g = self._skews.setdefault(event.operator, (keys.weights.copy(), np.ones(len(keys))))
        record = self.world.ledger.record(event.kind, event.operator, self.env.now, factor=event.factor)
        before_g, steps = factor_g[groups].copy(), 1 if event.over_s is None else STEPS
        for step in range(1, steps + 1):
            if event.over_s is not None:
                yield self.env.timeout(event.over_s / STEPS)
            factor_g[groups] = before_g + (event.factor - before_g) * step / steps
            keys.reweigh(base_g * factor_g / np.sum(base_g * factor_g))
        record.end_s = float(self.env.now)


# statistics of a period ----------------------------------------------------------------------------------------------
# They are made for the policy, from counters of the running job.
#
# The records of each key group, the time that they keep its subtask busy, and the records that it sends are
# expectations: its weight among the groups of its subtask at the time. The counts of a subtask are divided among its
# key groups each time that weights or owners change.


class Counted(NamedTuple):
    """Counts of one period, [G] each: records taken in, seconds that the subtask was busy with them, and records
    sent."""

    records_g: np.ndarray
    busy_g_s: np.ndarray
    sent_g: np.ndarray


class GroupMeter:
    """Meter of the key groups of one operator."""

    def __init__(self, keys: KeyGroups) -> None:
        self.keys = keys
        self._sums = np.zeros((3, len(keys)))
        self._receivers = tuple(keys.tasks)
        self._counters = self._now()
        self._owner_g, self._part_g = keys.owners(), keys.parts()
        keys.watch(lambda _shares: self._changed())

    def close(self) -> Counted:
        """Counts since the last call."""
        self._changed()
        sums, self._sums = self._sums, np.zeros_like(self._sums)
        return Counted(*sums)

    def _changed(self) -> None:
        """Divides the counts so far among the key groups, by the weights that have held until now."""
        before, self._counters = self._counters, self._now()
        self._sums += (self._counters - before)[:, self._owner_g] * self._part_g
        self._receivers = tuple(self.keys.tasks)
        self._counters = self._now()
        self._owner_g, self._part_g = self.keys.owners(), self.keys.parts()

    def _now(self) -> np.ndarray:
        """Counters of the receivers; records in a buffer count when its subtask takes them. [3, subtasks and
        buffers]"""
        tasks = (receiver if isinstance(receiver, Task) else None for receiver in self._receivers)
        counters = [(task.records_in, task.busy_until_now_s(), _sent(task)) if task else (0, 0.0, 0) for task in tasks]
        return np.array(counters, dtype=float).T


def _sent(task: Task) -> int:
    """Records that left a subtask from its first operator; where that has no streams of its own, from all others."""
    return task.logic.left(0) or int(task.output.records_out)


class Observer:
    """Makes the statistics of each period, also when no policy is asked."""

    def __init__(self, job: RunningJob) -> None:
        self.job = job
        self.world = world = job.world
        self._meters = {name: GroupMeter(keys) for name, keys in world.key_groups.items()}
        self._busy_s: dict[Task, float] = {}

    def close(self, operators: Sequence[Row], hosts: Sequence[Row]) -> PeriodStatistics:
        """Statistics of the period of these rows."""
        world = self.world
        start_s, end_s = operators[0]["start_s"], operators[0]["end_s"]
        percent = self._percent_a_second(hosts)
        counted = {name: meter.close() for name, meter in self._meters.items()}
        traffic = self._traffic(counted, end_s - start_s)
        own = self._own_percent(traffic)
        return PeriodStatistics(
            start_s=start_s,
            end_s=end_s,
            operators={row["operator"]: row for row in operators},
            hosts={row["host"]: row for row in hosts},
            placement={
                operator.name: tuple(str(task.place) for task in world.tasks_of(operator.name))
                for operator in world.query.topological
            },
            key_groups={
                name: self._groups(name, counted[name], percent, end_s - start_s, own.get(name)) for name in counted
            },
            traffic=traffic,
            subtasks=self._subtasks(start_s),
        )

    def _subtasks(self, start_s: float) -> dict[str, list[Row]]:
        """Rows of all subtasks in the period that has just ended, by operator."""
        rows = defaultdict[str, list[Row]](list)
        for row in takewhile(lambda row: row["end_s"] > start_s, reversed(self.job.statistics.subtask_rows)):
            rows[row["operator"]].append(row)
        return dict(rows)

    def _traffic(self, counted: Mapping[str, Counted], length_s: float) -> dict[tuple[str, str], np.ndarray]:
        """Records a second from key groups to key groups, by ends of streams; expectations, as records have no keys."""
        world, query = self.world, self.world.query
        traffic = dict[tuple[str, str], np.ndarray]()
        for stream in query.streams_by_name:
            ends = stream.producer, stream.consumer
            if not (ends[0] in counted and ends[1] in counted and query.partitioning(stream).keeps_keys):
                continue
            aligned = world.streams[stream.key].aligned
            to = world.key_groups[ends[1]].weights if aligned is None else aligned.receivers()
            traffic[ends] = traffic.get(ends, 0.0) + counted[ends[0]].sent_g[:, None] / length_s * to
        return traffic

    def _own_percent(self, traffic: Mapping[tuple[str, str], np.ndarray]) -> dict[str, np.ndarray]:
        """CPU percent of key groups for records that leave the host, by operator at an end of an aligned stream. [G]"""
        world, percent = self.world, dict[str, np.ndarray]()
        number = {name: index for index, name in enumerate(world.hosts)}
        capacity_h = np.array([host.left_percent / 100.0 for host in world.hosts.values()])
        for ends in dict.fromkeys((key[0], key[1]) for key, made in world.streams.items() if made.aligned is not None):
            host = {name: np.array([number[place] for place in self._hosts_g(name)]) for name in ends}
            size = world.engine.output_bytes(world.query, ends[0])
            cores = remote_cores(traffic[ends], host[ends[0]], host[ends[1]], size, world.engine)
            for name, cores_g in zip(ends, cores, strict=True):
                percent[name] = percent.get(name, 0.0) + 100.0 * cores_g / capacity_h[host[name]]
        return percent

    def _hosts_g(self, operator: str) -> list[str]:
        keys, fan = self.world.key_groups[operator], self.job.fan(operator)
        return [fan.places[owner].host for owner in keys.owner]

    def _percent_a_second(self, hosts: Sequence[Row]) -> Mapping[str, float]:
        """Percent of a host's CPU for each second in which one of its subtasks was busy.

        Subtasks that share a processor are busy for longer than they work, all by the same factor on average, as it
        serves them in turns. So the work of a host is split among its subtasks in proportion to their busy times.
        """
        busy_s: dict[str, float] = defaultdict(float)
        for tasks in self.world.tasks.values():
            for task in tasks:
                until_now_s = task.busy_until_now_s()
                busy_s[task.place.host] += until_now_s - self._busy_s.get(task, 0.0)
                self._busy_s[task] = until_now_s
        used = {row["host"]: 100.0 * row["cpuUtilisation"] for row in hosts}
        return {host: used.get(host, 0.0) / seconds if seconds > 0.0 else 0.0 for host, seconds in busy_s.items()}

    def _groups(
        self,
        operator: str,
        counted: Counted,
        percent: Mapping[str, float],
        length_s: float,
        own_g: np.ndarray | None,
    ) -> tuple[KeyGroupStatistics, ...]:
        world = self.world
        keys, fan, tasks = world.key_groups[operator], self.job.fan(operator), world.tasks[operator]
        subtask = {fan.index(task): number for number, task in enumerate(tasks)}
        factor = np.array([percent[task.place.host] for task in tasks])
        subtask_g = np.array([subtask.get(owner, 0) for owner in keys.owner])
        percent_g = counted.busy_g_s * factor[subtask_g]
        if own_g is not None:
            percent_g = attributed(percent_g, own_g, subtask_g)
        columns = (subtask_g.tolist(), counted.records_g / length_s, keys.states_bytes(), percent_g)
        return tuple(
            KeyGroupStatistics(group, number, float(rate), float(size), float(cpu))
            for group, (number, rate, size, cpu) in enumerate(zip(*columns, strict=True))
        )


# CPU of single key groups --------------------------------------------------------------------------------------------
# All groups of a subtask count as costing alike, but for records that leave the host: these are serialised, at a cost
# of each group's own.


def remote_cores(
    traffic: np.ndarray, host_g: np.ndarray, host_k: np.ndarray, size: float, engine: EngineProfile
) -> tuple[np.ndarray, np.ndarray]:
    """Reference cores that key groups of both ends of a stream spend on records that leave their host. [G], [K]

    traffic [G, K]: records a second. size: bytes of each. host_g, host_k: numbers of the hosts of the groups.
    """
    bytes_gk = size * traffic * (host_g[:, None] != host_k[None, :])
    sent, taken = bytes_gk.sum(axis=1), bytes_gk.sum(axis=0)
    return sent * engine.serialise_ns_per_byte * 1e-9, taken * engine.deserialise_ns_per_byte * 1e-9


def attributed(percent_g: np.ndarray, own_g: np.ndarray, subtask_g: np.ndarray) -> np.ndarray:
    """Percent of a host by key group, with the same sum over the groups of each subtask. [G]

    percent_g: percent if all groups of a subtask cost alike. own_g: the part of it that is known to be of the group
    alone; it is left out where it is more than the subtask used.
    """
    count = int(subtask_g.max()) + 1
    all_r, own_r = np.bincount(subtask_g, percent_g, count), np.bincount(subtask_g, own_g, count)
    known_r = (all_r > 0.0) & (own_r <= all_r)
    rest_r = np.where(known_r, all_r - own_r, all_r) / np.where(all_r > 0.0, all_r, 1.0)
    return np.asarray(percent_g * rest_r[subtask_g] + own_g * known_r[subtask_g])
