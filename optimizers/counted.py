"""Plans as counts of replicas by operator and socket, in the form that cost models read fastest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from optimizers.space import counts_of, listed
from twin.deployment import Deployment
from twin.plan import ExecutionPlan
from twin.rates.coefficients import PlacementCoefficients
from twin.rates.placements import CountedPlans, Placements


def as_plans(job: Deployment, counts_nol: np.ndarray) -> Sequence[ExecutionPlan]:
    """Plans of counts [N, O, L], operators in data-flow order, sockets of all hosts in a row.

    Key groups stay with their replicas, by number; counts of the deployment's own plan give that plan itself.
    """
    plans = CountedPlans(job, counts_nol)
    if job.plan.key_groups:
        given_ol = counts_of(job, job.plan)
        return [
            job.plan if (each == given_ol).all() else job.plan.with_placement(plans[n].placement)
            for n, each in enumerate(counts_nol)
        ]
    if any(host.socket_count > 1 for host in job.cluster.hosts) or ((counts_nol > 0).sum(axis=2) != 1).any():
        return plans
    placements = Placements(job, counts_nol.argmax(axis=2)[:, listed(job)])
    same = counts_nol.sum(axis=2)[:, listed(job)] == np.array(placements.replicas)
    return placements if same.all() else plans


def counts_on(job: Deployment, hosts_no: np.ndarray) -> np.ndarray:
    """Counts [N, O, L] of placements that put each operator, as the query lists them, on socket 0 of one host."""
    return np.asarray(Placements(job, hosts_no).socket_counts(job), np.int64)


def enough_memory(job: PlacementCoefficients) -> np.ndarray:
    """[O, L] whether the host of a socket has memory for the engine and one replica of an operator."""
    law, host_l = job.deployment.engine.memory, job.places.host_l
    need_o = job.operators.held_mb / job.operators.replicas + law.base_mb
    return np.asarray(need_o[:, None] < law.crash * job.places.ram_mb_h[host_l])
