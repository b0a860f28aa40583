"""The rate model's own coefficients as features of plans: the age that each operator and each stream adds, in seconds.

What a black box says otherwise is then a relative correction of these: "this operator is slower there", "these links
are longer than they look". Columns: an operator alone on a socket, and a stream on its way out of a host.
"""

from __future__ import annotations

import numpy as np

from optimizers.milp.ages import alone_s
from twin.rates.coefficients import PlacementCoefficients


def terms(job: PlacementCoefficients, counts_nol: np.ndarray, *, end_to_end: bool) -> np.ndarray:
    """[N, O * L + S * H], seconds, of plans [N, O, L]."""
    share_nol = counts_nol / counts_nol.sum(axis=2, keepdims=True)
    alone_ol = np.minimum(alone_s(job, np.zeros(len(job.names)), end_to_end=end_to_end), 1e3)
    host_noh = job.at_hosts(share_nol)
    ways = [
        host_noh[:, start] * (host_noh[:, end] @ host_latency_s(job).T)
        for start, end in zip(job.producer_s, job.consumer_s, strict=True)
    ]
    return np.hstack([(share_nol * alone_ol).reshape(len(counts_nol), -1), *ways])


def host_latency_s(job: PlacementCoefficients) -> np.ndarray:
    """From host to host, 0 on the diagonal and where no route leads. [H, H]"""
    cluster = job.deployment.cluster
    hosts = [host.name for host in cluster.hosts]
    if not cluster.links:
        return job.places.latency_h[:, None] * (1.0 - np.eye(len(hosts)))
    link_s = {frozenset(link.between): link.latency_ms * 1e-3 for link in cluster.links}
    return np.array(
        [
            [
                sum(link_s[frozenset(ends)] for ends in cluster.routes.between(start, end))
                if start != end and cluster.routes.connected(start, end)
                else 0.0
                for end in hosts
            ]
            for start in hosts
        ]
    )
