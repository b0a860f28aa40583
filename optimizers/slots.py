"""Plans that an engine of task slots can deploy, such as Flink: parallelism by operator, and slots on task managers.

A slot takes at most one subtask of each operator of a slot sharing group, so a group needs as many slots as its highest
parallelism, and its subtasks k run in its slot k. A job needs the slots of all its groups. Slots are spread evenly over
the task managers that are used, as Flink does with `cluster.evenly-spread-out-slots`. One operator cannot have 4, 2, 1
subtasks on three task managers and the next one of its group 2, 2, 3; nor 1, 0, 0 and 0, 1, 1. Pinned operators are
left out: they stay where they are.

Letters at the end of a name are axes: n plans, o operators in data-flow order, h hosts, of one socket each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from twin.deployment import Deployment
from twin.plan import ExecutionPlan


def by_slots(deployment: Deployment) -> bool:
    """Whether the engine places subtasks in slots. Clusters with links or several sockets on a host are left out."""
    hosts, links = deployment.cluster.hosts, deployment.cluster.links
    return deployment.engine.slots and not links and all(host.socket_count == 1 for host in hosts)


def groups_of(deployment: Deployment) -> np.ndarray:
    """[O] numbers of the operators' slot sharing groups, in data-flow order."""
    names = list(deployment.query.slot_sharing_groups.values())
    return np.array([names.index(name) for name in names])


def fits(counts_noh: np.ndarray, pinned_o: np.ndarray, group_o: np.ndarray) -> np.ndarray:
    """[N] whether slots can hold each plan."""
    free_noh, groups = counts_noh[:, ~pinned_o], group_o[~pinned_o]
    if not free_noh.shape[1]:
        return np.ones(len(counts_noh), bool)
    slots_nh, nested_n = np.zeros_like(free_noh[:, 0]), np.ones(len(counts_noh), bool)
    for group in np.unique(groups):
        there_noh = free_noh[:, groups == group]
        slots_nh = slots_nh + there_noh.max(axis=1)
        order_no = there_noh.sum(axis=2).argsort(axis=1, kind="stable")
        rising_noh = np.take_along_axis(there_noh, order_no[:, :, None], axis=1)
        nested_n &= (np.diff(rising_noh, axis=1) >= 0).all(axis=(1, 2))  # fewer subtasks are in the first slots of more
    spread_nxh = np.concatenate([free_noh, slots_nh[:, None]], axis=1)
    used_nh = slots_nh > 0
    most_nx = np.where(used_nh[:, None], spread_nxh, 0).max(axis=2)
    least_nx = np.where(used_nh[:, None], spread_nxh, np.iinfo(np.int64).max).min(axis=2)
    return np.asarray(nested_n & (most_nx - least_nx <= 1).all(axis=1))


def deployed(counts_oh: np.ndarray, pinned_o: np.ndarray, group_o: np.ndarray) -> np.ndarray:
    """[O, H] deployable plan nearest to `counts_oh`: the same parallelism on the same hosts, with subtask k in slot k,
    and the slots of one group after those of another. The hosts with the most subtasks in `counts_oh` get the first
    slots.
    """
    found = counts_oh.copy()
    wished_h = counts_oh[~pinned_o].sum(axis=0)
    hosts = np.array([h for h in np.argsort(-wished_h, kind="stable") if wished_h[h]])
    first = 0
    for group in np.unique(group_o[~pinned_o]):
        there = np.flatnonzero(~pinned_o & (group_o == group))
        for o in there:
            found[o] = 0
            np.add.at(found[o], hosts[(first + np.arange(counts_oh[o].sum())) % len(hosts)], 1)
        first += counts_oh[there].sum(axis=1).max()
    return found


def evened(counts_oh: np.ndarray, free_o: np.ndarray) -> np.ndarray:
    """[O, H] plan with more subtasks of the operators in `free_o`, so that all used hosts have equally many."""
    hosts = np.flatnonzero(counts_oh.any(axis=0))
    found = counts_oh.copy()
    for o in np.flatnonzero(free_o):
        found[o] = 0
        found[o, hosts] = -(-counts_oh[o].sum() // len(hosts))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotDeployment:
    """Deployment of a plan in slots. parallelism: subtasks by operator. task_managers: number of slots by host."""

    parallelism: Mapping[str, int]
    task_managers: Mapping[str, int]

    @classmethod
    def of(cls, plan: ExecutionPlan, names: Sequence[str], groups: Mapping[str, str]) -> SlotDeployment:
        """Deployment of a plan that slots can hold. names: of all operators. groups: slot sharing group by operator."""
        on = {name: [place.host for place in plan.locations(name)] for name in names}
        hosts = sorted({host for each in on.values() for host in each})
        shared = [[on[name] for name in names if groups[name] == group] for group in {groups[name] for name in names}]
        slots = {host: sum(max(each.count(host) for each in group) for group in shared) for host in hosts}
        return cls(parallelism={name: len(each) for name, each in on.items()}, task_managers=slots)

    @property
    def words(self) -> str:
        """Deployment in one line of words."""
        counts = ", ".join(f"{name} {count}" for name, count in self.parallelism.items())
        most = max(self.task_managers.values())
        slots = f"{most} slot{'s' if most > 1 else ''}"
        hosts = len(self.task_managers)
        managers = f"{hosts} task manager{'s' if hosts > 1 else ''} of {slots}{' each' if hosts > 1 else ''}"
        return f"to deploy: {managers} ({', '.join(self.task_managers)}); parallelism: {counts}"
