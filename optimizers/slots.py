"""Plans that an engine of task slots can deploy, such as Flink: parallelism by operator, and slots on task managers.

A slot takes at most one subtask of each operator (slot sharing), so a job needs as many slots as its highest
parallelism, and subtask k runs in slot k. Slots are spread evenly over the task managers that are used, as Flink does
with `cluster.evenly-spread-out-slots`. Nobody can say that one operator has 4, 2, 1 subtasks on three task managers and
the next one 2, 2, 3. Operators that are pinned are not deployed so: they stay where they are.

Letters at the end of a name are axes: n plans, o operators in data-flow order, h hosts, of one socket each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from twin.deployment import Deployment
from twin.plan import ExecutionPlan


def by_slots(deployment: Deployment) -> bool:
    """Whether the engine places subtasks by slots, on hosts that all reach each other alike."""
    hosts, links = deployment.cluster.hosts, deployment.cluster.links
    return deployment.engine.slots and not links and all(host.socket_count == 1 for host in hosts)


def fits(counts_noh: np.ndarray, pinned_o: np.ndarray) -> np.ndarray:
    """Whether plans can be deployed. [N]"""
    free_noh = counts_noh[:, ~pinned_o]
    if not free_noh.shape[1]:
        return np.ones(len(counts_noh), bool)
    slots_nh = free_noh.max(axis=1)
    used_nh = slots_nh > 0
    most_no = np.where(used_nh[:, None], free_noh, 0).max(axis=2)
    least_no = np.where(used_nh[:, None], free_noh, np.iinfo(np.int64).max).min(axis=2)
    enough_n = slots_nh.sum(axis=1) == free_noh.sum(axis=2).max(axis=1)
    return np.asarray(enough_n & (most_no - least_no <= 1).all(axis=1))


def deployed(counts_oh: np.ndarray, pinned_o: np.ndarray) -> np.ndarray:
    """The plan that comes of a wish [O, H]: the same parallelism on the same hosts, with subtask k in slot k. The first
    slots are on the hosts that were to have most."""
    found = counts_oh.copy()
    wished_h = counts_oh[~pinned_o].sum(axis=0)
    hosts = np.array([h for h in np.argsort(-wished_h, kind="stable") if wished_h[h]])
    for o in np.flatnonzero(~pinned_o):
        found[o] = 0
        np.add.at(found[o], hosts[np.arange(counts_oh[o].sum()) % len(hosts)], 1)
    return found


def evened(counts_oh: np.ndarray, free_o: np.ndarray) -> np.ndarray:
    """With so many more subtasks of the operators whose number is free that all hosts in use have equally many."""
    hosts = np.flatnonzero(counts_oh.any(axis=0))
    found = counts_oh.copy()
    for o in np.flatnonzero(free_o):
        found[o] = 0
        found[o, hosts] = -(-counts_oh[o].sum() // len(hosts))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotDeployment:
    """How a plan is deployed. parallelism: by operator. task_managers: hosts, with the slots that each needs."""

    parallelism: Mapping[str, int]
    task_managers: Mapping[str, int]

    @classmethod
    def of(cls, plan: ExecutionPlan, names: Sequence[str]) -> SlotDeployment:
        """Of a plan that can be deployed. names: the operators that are not pinned."""
        on = {name: [place.host for place in plan.locations(name)] for name in names}
        hosts = sorted({host for each in on.values() for host in each})
        slots = {host: max(each.count(host) for each in on.values()) for host in hosts}
        return cls(parallelism={name: len(each) for name, each in on.items()}, task_managers=slots)

    @property
    def words(self) -> str:
        """In a line."""
        each = ", ".join(f"{name} {count}" for name, count in self.parallelism.items())
        most = max(self.task_managers.values())
        slots = f"{most} slot{'s' if most > 1 else ''}"
        hosts = len(self.task_managers)
        managers = f"{hosts} task manager{'s' if hosts > 1 else ''} of {slots}{' each' if hosts > 1 else ''}"
        return f"to deploy: {managers} ({', '.join(self.task_managers)}); parallelism: {each}"
