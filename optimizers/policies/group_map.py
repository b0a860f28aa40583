"""Turns a running job into a balancing problem of hosts and key groups, and the answer into moves.

Anything else that runs on a host is one more group, which stays. A replica works on one core at a time: a host counts
as no more cores than it has replicas that key groups can go to, and those that anything else there keeps busy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from optimizers.balancing.balance import Balance
from optimizers.balancing.traffic import KeyGroupTraffic
from optimizers.policies.room import can_move
from twin.control import KeyGroupStatistics, PeriodStatistics
from twin.deployment import Deployment
from twin.events import Move
from twin.plan import Location

NEW = -1
"""Stands for the number of a replica that does not exist yet."""


class MigrationBudget(NamedTuple):
    """The budget of a round: number of migrations, or MB of state that they move, if given."""

    migrations: int
    state_mb: float | None = None


@dataclass(frozen=True)
class GroupMap:
    """Key groups and hosts in the last of some periods; loads are means over all of them.

    operators: those whose key groups may move. more: hosts without replicas that key groups may go to as well. marked:
    hosts that key groups are to leave.
    """

    deployment: Deployment
    periods: Sequence[PeriodStatistics]
    operators: Sequence[str]
    more: frozenset[str] = frozenset()
    marked: frozenset[str] = frozenset()

    def balance(self, budget: MigrationBudget, with_traffic: bool = False) -> Balance:
        """Balancing problem with loads by CPU and by state, in percent of a host, and the memory of hosts as a limit.

        Raises BadInput if there is nothing to balance.
        """
        nodes, home_g = len(self.hosts), self.home_g
        cores_g, rest_h = self.cores()
        cores_h = np.array([self._core_count(host) for host in self.hosts])
        capacity_h = np.minimum(cores_h, self._replicas_h() + rest_h)
        state_g, other_h, ram_h = self._memory_mb()
        ends_g = np.concatenate([home_g, np.arange(nodes)])
        traffic = None
        if with_traffic:
            traffic = traffic_of(self.deployment, self.periods, self.operators, beside=nodes)
        found = Balance(
            loads={
                "cpu": 100.0 * np.concatenate([cores_g, rest_h]) / capacity_h[ends_g],
                "state": 100.0 * np.concatenate([state_g, np.zeros(nodes)]) / ram_h[ends_g],
            },
            home_g=ends_g,
            capacity_h=capacity_h,
            budget=budget.migrations if budget.state_mb is None else budget.state_mb,
            cost_g=None if budget.state_mb is None else np.concatenate([state_g, other_h]),
            state_g=np.concatenate([state_g, other_h]),
            memory_h=self.deployment.engine.memory.onset * ram_h,
            fixed_g=np.arange(len(ends_g)) >= len(home_g),
            kill_h=np.array([host in self.marked for host in self.hosts]),
            traffic=traffic,
        )
        if with_traffic and found.bottleneck == "cpu":
            return replace(found, serialising=serialising(self.deployment))
        return found

    def moves(self, node_g: np.ndarray) -> tuple[Move, ...]:
        """Moves of key groups to these nodes: to the replica there with the least work, or to a new one if possible."""
        cores_g, _ = self.cores()
        load = dict.fromkeys(self.replicas, 0.0)
        for (operator, group), cores in zip(self.groups, cores_g, strict=True):
            load[operator, group.replica] += cores
        wanted: dict[tuple[str, int, str], list[int]] = {}
        moved = np.flatnonzero(node_g[: len(self.groups)] != self.home_g)
        for index in sorted(moved, key=lambda index: -cores_g[index]):
            (operator, group), host = self.groups[index], self.hosts[node_g[index]]
            there = self._replicas_of(operator, host)
            target = min(there, key=lambda key: (load[key], key)) if there else (operator, NEW)
            load[target] = load.get(target, 0.0) + cores_g[index]
            wanted.setdefault((*target, host), []).append(group.group)
        moves = (
            Move(operator=name, key_groups=tuple(sorted(groups)), **({"to": to} if k == NEW else {"to_replica": k}))
            for (name, k, to), groups in sorted(wanted.items())
        )
        return tuple(move for move in moves if can_move(move, self.deployment, self.periods[-1].placement))

    # where everything is ----------------------------------------------------------------------------------------------

    @property
    def groups(self) -> list[tuple[str, KeyGroupStatistics]]:
        """[G] operator and statistics of each group in the last period."""
        return _groups(self.periods[-1], self.operators)

    @property
    def replicas(self) -> dict[tuple[str, int], str]:
        """Host of each replica that key groups can go to."""
        hosts = _hosts(self.periods[-1])
        return {(name, number): host for name in self.operators for number, host in enumerate(hosts[name])}

    @property
    def hosts(self) -> list[str]:
        """[H] names of the nodes."""
        return sorted(self.more.union(self.replicas.values()))

    @property
    def home_g(self) -> np.ndarray:
        """[G] node of each group, an index into `hosts`."""
        number, replicas = {host: index for index, host in enumerate(self.hosts)}, self.replicas
        return np.array([number[replicas[name, group.replica]] for name, group in self.groups], dtype=int)

    def _replicas_of(self, operator: str, host: str) -> list[tuple[str, int]]:
        return [key for key, where in self.replicas.items() if key[0] == operator and where == host]

    # work and memory --------------------------------------------------------------------------------------------------

    def cores(self) -> tuple[np.ndarray, np.ndarray]:
        """Reference cores that each group keeps busy [G], and that anything else on a host does [H]."""
        found = [self._cores_in(period) for period in self.periods]
        return np.mean([cores_g for cores_g, _ in found], axis=0), np.mean([rest_h for _, rest_h in found], axis=0)

    def _cores_in(self, period: PeriodStatistics) -> tuple[np.ndarray, np.ndarray]:
        hosts = _hosts(period)
        on_host = dict.fromkeys(self.hosts, 0.0)
        cores_g = []
        for name, group in _groups(period, self.operators):
            host = hosts[name][group.replica]
            cores_g.append(group.cpu_percent / 100.0 * self._core_count(host))
            on_host[host] = on_host.get(host, 0.0) + cores_g[-1]
        used = {host: row["cpuUtilisation"] * self._core_count(host) for host, row in period.hosts.items()}
        return np.array(cores_g), np.array([max(0.0, used.get(host, 0.0) - on_host[host]) for host in self.hosts])

    def _core_count(self, host: str) -> float:
        return self.deployment.cluster.host(host).left_percent / 100.0

    def _replicas_h(self) -> np.ndarray:
        count = Counter(self.replicas.values())
        count.update({host: len(self.operators) for host in self.more})  # a replica of each operator may be made there
        return np.array([count[host] for host in self.hosts], dtype=float)

    def _memory_mb(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """State of groups as objects [G], other used memory of a host [H], and its RAM [H], all in MB."""
        overhead = self.deployment.engine.memory.object_overhead
        state_g = np.array([group.state_bytes for _, group in self.groups]) * overhead / 1e6
        rows = self.periods[-1].hosts
        used_h = np.array([rows[host]["memoryUsedMb"] if host in rows else 0.0 for host in self.hosts])
        ram_h = np.array([self.deployment.cluster.host(host).ram_mb for host in self.hosts], dtype=float)
        return state_g, np.maximum(0.0, used_h - np.bincount(self.home_g, state_g, len(ram_h))), ram_h


def serialising(deployment: Deployment) -> float:
    """Cost of a byte a second between hosts, both ends together, in percent of a reference core."""
    engine = deployment.engine
    return 100.0 * 1e-9 * (engine.serialise_ns_per_byte + engine.deserialise_ns_per_byte)


def traffic_of(
    deployment: Deployment, periods: Sequence[PeriodStatistics], operators: Sequence[str], beside: int
) -> KeyGroupTraffic:
    """Mean traffic over the periods between key groups, operator by operator, and `beside` silent groups."""
    counts = [len(periods[-1].key_groups[name]) for name in operators]
    first = dict(zip(operators, accumulate(counts, initial=0), strict=False))
    senders, receivers, rates = [], [], []
    for ends in sorted({ends for period in periods for ends in period.traffic}):
        if ends[0] in first and ends[1] in first:
            size = deployment.engine.output_bytes(deployment.query, ends[0])
            rate = size * np.mean([period.traffic[ends] for period in periods], axis=0)
            sender, receiver = np.nonzero(rate)
            senders.append(sender + first[ends[0]])
            receivers.append(receiver + first[ends[1]])
            rates.append(rate[sender, receiver])
    nothing = np.zeros(0, dtype=int)
    return KeyGroupTraffic(
        operator_g=np.repeat(np.arange(len(operators) + 1), [*counts, beside]),
        sender_e=np.concatenate([nothing, *senders]),
        receiver_e=np.concatenate([nothing, *receivers]),
        rate_e=np.concatenate([nothing.astype(float), *rates]),
    )


def _groups(period: PeriodStatistics, operators: Sequence[str]) -> list[tuple[str, KeyGroupStatistics]]:
    return [(name, group) for name in operators for group in period.key_groups[name]]


def _hosts(period: PeriodStatistics) -> dict[str, list[str]]:
    """Host of each replica, by operator."""
    return {name: [Location.parse(place).host for place in places] for name, places in period.placement.items()}
