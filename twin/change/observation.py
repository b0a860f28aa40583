"""Statistics of a period for a policy, from counters of the running job.

The tuples of each key group, the time that they keep its replica busy, and the tuples that it sends are expectations:
its weight among the groups of its replica at the time. The counts of a replica are divided among its key groups each
time that weights or owners change.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from twin.control import KeyGroupStatistics, PeriodStatistics
from twin.engine.keys.groups import KeyGroups
from twin.engine.measure.meters import Row
from twin.engine.station.task import Task
from twin.profiles import EngineProfile

if TYPE_CHECKING:
    from twin.change.running_job import RunningJob


class Counted(NamedTuple):
    """Counts of one period, [G] each: tuples taken in, seconds that the replica was busy with them, and tuples sent."""

    tuples_g: np.ndarray
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
        """Counters of the receivers; tuples in a buffer count when its replica takes them. [3, replicas and buffers]"""
        tasks = (receiver if isinstance(receiver, Task) else None for receiver in self._receivers)
        counters = [
            (task.tuples_in, task.busy_until_now_s(), task.output.tuples_out) if task else (0, 0.0, 0) for task in tasks
        ]
        return np.array(counters, dtype=float).T


class Observer:
    """Makes the statistics of each period, also when no policy is asked."""

    def __init__(self, job: RunningJob) -> None:
        self.job = job
        self.wiring = wiring = job.wiring
        self._meters = {name: GroupMeter(keys) for name, keys in wiring.world.key_groups.items()}
        self._busy_s: dict[Task, float] = {}

    def close(self, operators: Sequence[Row], hosts: Sequence[Row]) -> PeriodStatistics:
        """Statistics of the period of these rows."""
        wiring = self.wiring
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
                operator.name: tuple(str(task.place) for task in wiring.tasks_of(operator.name))
                for operator in wiring.query.topological
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
        """Tuples a second from key groups to key groups, by stream. These are expectations, as tuples carry no keys."""
        world, query = self.wiring.world, self.wiring.query
        traffic = {}
        for stream in query.streams_by_name:
            ends = stream.producer, stream.consumer
            if not (ends[0] in counted and ends[1] in counted and query.partitioning(stream).keeps_keys):
                continue
            aligned = world.streams[ends].aligned
            to = world.key_groups[ends[1]].weights if aligned is None else aligned.receivers()
            traffic[ends] = counted[ends[0]].sent_g[:, None] / length_s * to
        return traffic

    def _own_percent(self, traffic: Mapping[tuple[str, str], np.ndarray]) -> dict[str, np.ndarray]:
        """CPU percent of key groups for tuples that leave the host, by operator at an end of an aligned stream. [G]"""
        wiring, percent = self.wiring, dict[str, np.ndarray]()
        number = {name: index for index, name in enumerate(wiring.hosts)}
        capacity_h = np.array([host.left_percent / 100.0 for host in wiring.hosts.values()])
        for ends in [ends for ends, made in wiring.world.streams.items() if made.aligned is not None]:
            host = {name: np.array([number[place] for place in self._hosts_g(name)]) for name in ends}
            size = wiring.engine.output_bytes(wiring.query, ends[0])
            cores = remote_cores(traffic[ends], host[ends[0]], host[ends[1]], size, wiring.engine)
            for name, cores_g in zip(ends, cores, strict=True):
                percent[name] = percent.get(name, 0.0) + 100.0 * cores_g / capacity_h[host[name]]
        return percent

    def _hosts_g(self, operator: str) -> list[str]:
        keys, fan = self.wiring.world.key_groups[operator], self.job.fan(operator)
        return [fan.places[owner].host for owner in keys.owner]

    def _percent_a_second(self, hosts: Sequence[Row]) -> Mapping[str, float]:
        """Percent of a host's CPU for each second in which one of its replicas was busy.

        Replicas that share a processor are busy for longer than they work, all by the same factor on average, as it
        serves them in turns. So the work of a host is split among its replicas in proportion to their busy times.
        """
        busy_s: dict[str, float] = defaultdict(float)
        for tasks in self.wiring.world.tasks.values():
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
        wiring = self.wiring
        keys, fan, tasks = wiring.world.key_groups[operator], self.job.fan(operator), wiring.world.tasks[operator]
        replica = {fan.index(task): number for number, task in enumerate(tasks)}
        factor = np.array([percent[task.place.host] for task in tasks])
        replica_g = np.array([replica.get(owner, 0) for owner in keys.owner])
        percent_g = counted.busy_g_s * factor[replica_g]
        if own_g is not None:
            percent_g = attributed(percent_g, own_g, replica_g)
        columns = (replica_g.tolist(), counted.tuples_g / length_s, keys.states_bytes(), percent_g)
        return tuple(
            KeyGroupStatistics(group, number, float(rate), float(size), float(cpu))
            for group, (number, rate, size, cpu) in enumerate(zip(*columns, strict=True))
        )


# groups of a replica cost alike, but tuples that leave the host are serialised, at a cost of each group's own ---------


def remote_cores(
    traffic: np.ndarray, host_g: np.ndarray, host_k: np.ndarray, size: float, engine: EngineProfile
) -> tuple[np.ndarray, np.ndarray]:
    """Reference cores that key groups of both ends of a stream spend on tuples that leave their host. [G], [K]

    traffic [G, K]: tuples a second. size: bytes of each. host_g, host_k: numbers of the hosts of the groups.
    """
    bytes_gk = size * traffic * (host_g[:, None] != host_k[None, :])
    sent, taken = bytes_gk.sum(axis=1), bytes_gk.sum(axis=0)
    return sent * engine.serialise_ns_per_byte * 1e-9, taken * engine.deserialise_ns_per_byte * 1e-9


def attributed(percent_g: np.ndarray, own_g: np.ndarray, replica_g: np.ndarray) -> np.ndarray:
    """Percent of a host by key group, with the same sum over the groups of each replica. [G]

    percent_g: percent if all groups of a replica cost alike. own_g: the part of it that is known to be of the group
    alone; it is left out where it is more than the replica used.
    """
    count = int(replica_g.max()) + 1
    all_r, own_r = np.bincount(replica_g, percent_g, count), np.bincount(replica_g, own_g, count)
    known_r = (all_r > 0.0) & (own_r <= all_r)
    rest_r = np.where(known_r, all_r - own_r, all_r) / np.where(all_r > 0.0, all_r, 1.0)
    return np.asarray(percent_g * rest_r[replica_g] + own_g * known_r[replica_g])
