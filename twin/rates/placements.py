"""Plans of one job as one array, which optimizers enumerate and cost models estimate.

Building and checking a plan object takes a fifth of a millisecond, more than estimating it; here an object is made only
of a plan that somebody asks for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import numpy as np

from twin.chaining import still_fused
from twin.deployment import Deployment
from twin.plan import ExecutionPlan, Location


class Placements(Sequence[ExecutionPlan]):
    """Plans that put all replicas of an operator on one host, on its socket 0; as many replicas as the job's plan has,
    and its assignment of key groups.

    hosts_po: for each plan and each operator, in the order of `query.operators`, an index into the cluster's hosts.
    """

    def __init__(self, deployment: Deployment, hosts_po: np.ndarray) -> None:
        self.operators = tuple(operator.name for operator in deployment.query.operators)
        self.hosts = tuple(host.name for host in deployment.cluster.hosts)
        self.given = deployment.plan
        self.replicas = tuple(self.given.replicas(name) for name in self.operators)
        self.hosts_po = np.asarray(hosts_po, np.int64).reshape(-1, len(self.operators))

    def __len__(self) -> int:
        return len(self.hosts_po)

    @overload
    def __getitem__(self, index: int) -> ExecutionPlan: ...

    @overload
    def __getitem__(self, index: slice) -> Placements: ...

    def __getitem__(self, index: int | slice) -> ExecutionPlan | Placements:
        if isinstance(index, slice):
            return self.take(np.arange(len(self))[index])
        return self.given.with_placement(
            {
                name: (self.hosts[host],) * count
                for name, host, count in zip(self.operators, self.hosts_po[index], self.replicas, strict=True)
            }
        )

    def take(self, rows: np.ndarray) -> Placements:
        """Plans of these rows (indices or a boolean mask)."""
        part = object.__new__(Placements)
        part.operators, part.hosts, part.replicas, part.given = self.operators, self.hosts, self.replicas, self.given
        part.hosts_po = self.hosts_po[rows]
        return part

    def replica_counts(self, operators: Sequence[str]) -> np.ndarray:
        """Numbers of replicas [plans, operators, hosts], the operators in the order given."""
        columns = [self.operators.index(name) for name in operators]
        here_poh = self.hosts_po[:, columns, None] == np.arange(len(self.hosts))
        return here_poh * np.array(self.replicas, np.float32)[columns][:, None]

    def socket_counts(self, deployment: Deployment) -> np.ndarray:
        """Numbers of replicas [plans, operators in data-flow order, sockets of all hosts in a row]."""
        sockets = [host.socket_count for host in deployment.cluster.hosts]
        counts = self.replica_counts([operator.name for operator in deployment.query.topological])
        columns = np.cumsum([0, *sockets[:-1]])
        all_sockets = np.zeros((*counts.shape[:2], sum(sockets)), np.float32)
        all_sockets[:, :, columns] = counts
        return all_sockets


class CountedPlans(Sequence[ExecutionPlan]):
    """Plans of any number of replicas on any sockets: counts_pol by plan, operator in data-flow order, and socket.

    Sockets are those of all hosts in a row; replicas of an operator come in their order. An operator with as many
    replicas as in the job's plan keeps the assignment of its key groups.
    """

    def __init__(self, deployment: Deployment, counts_pol: np.ndarray) -> None:
        self._deployment, self.given = deployment, deployment.plan
        self.counts_pol = np.asarray(counts_pol, np.int64)
        hosts = deployment.cluster.hosts
        self._places = [str(Location(host.name, socket)) for host in hosts for socket in range(host.socket_count)]
        self._row = {operator.name: o for o, operator in enumerate(deployment.query.topological)}

    def __len__(self) -> int:
        return len(self.counts_pol)

    @overload
    def __getitem__(self, index: int) -> ExecutionPlan: ...

    @overload
    def __getitem__(self, index: slice) -> CountedPlans: ...

    def __getitem__(self, index: int | slice) -> ExecutionPlan | CountedPlans:
        if isinstance(index, slice):
            return CountedPlans(self._deployment, self.counts_pol[index])
        names = [operator.name for operator in self._deployment.query.operators]
        counts_ol = self.counts_pol[index]
        placement = {name: tuple(np.repeat(self._places, counts_ol[self._row[name]]).tolist()) for name in names}
        return still_fused(self._deployment.query, self.given.with_placement(placement))

    def socket_counts(self, deployment: Deployment) -> np.ndarray:
        """Numbers of replicas [plans, operators in data-flow order, sockets of all hosts in a row]."""
        return self.counts_pol


def distinct_rows(values_nc: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Finds the different rows of small whole numbers >= 0: the first row of each kind, and each row's kind.

    Returns (first_u, kind_n) with values_nc[first_u][kind_n] == values_nc. Rows are packed into single numbers, which
    sort many times faster than rows.
    """
    key_n, span = np.zeros(len(values_nc), np.int64), 1
    for column_n in values_nc.T:
        size = int(column_n.max(initial=0)) + 1
        if span > 2**62 // size:
            key_n = np.unique(key_n, return_inverse=True)[1].astype(np.int64)
            span = int(key_n.max(initial=0)) + 1
        key_n = key_n * size + column_n
        span *= size
    _, first_u, kind_n = np.unique(key_n, return_index=True, return_inverse=True)
    return first_u, kind_n
