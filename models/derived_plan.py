"""One deployment under its own plan, as arrays that derived features are read from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from models.description import HARDWARE
from models.facts import LOADS, OperatorFacts, host_loads, replica_counts
from models.graph import levels
from twin.deployment import Deployment
from twin.rates.answer import RateAnswer


class DerivedPlan:
    """Arrays over the operators (in data-flow order), the streams (as listed by the query), and the hosts in use.

    levels: longest path from a source. pressure: nominal utilisation. reached_per_s: input once sources are slowed.
    leaving: share of a stream's tuples between hosts. bottleneck: the operator of highest pressure; upstream: a mask of
    it and all that feed it.
    """

    def __init__(
        self, deployment: Deployment, facts: Sequence[OperatorFacts], answer: RateAnswer, horizon_s: float
    ) -> None:
        self.facts, self.answer, self.horizon_s = facts, answer, horizon_s
        index = {each.spec.name: o for o, each in enumerate(facts)}
        streams = [(index[stream.producer], index[stream.consumer]) for stream in deployment.query.streams]
        counts_OxH = replica_counts(deployment, [deployment.plan])[0]
        share_OxH = counts_OxH / counts_OxH.sum(axis=1, keepdims=True)
        used = counts_OxH.any(axis=0)
        hosts = [host for host, is_used in zip(deployment.cluster.hosts, used, strict=True) if is_used]

        self.kinds = np.array([each.spec.kind for each in facts])
        self.levels = np.array(levels(len(facts), streams))
        self.in_per_s = np.array([each.rates.in_per_s for each in facts])
        self.out_per_s = np.array([each.rates.out_per_s for each in facts])
        self.pressure = answer.offered_pressure[0]
        self.reached_per_s = answer.in_per_s[0]
        self.bottleneck = int(self.pressure.argmax())
        self.upstream = _upstream(self.bottleneck, len(facts), streams)

        self.stream_bytes_per_s = np.array([facts[u].rates.out_per_s * facts[u].bytes_out for u, _ in streams])
        self.leaving = np.array([1.0 - float(share_OxH[u] @ share_OxH[v]) for u, v in streams])

        loads_HxL = host_loads(deployment, facts, np.flatnonzero(used), counts_OxH[:, used].T)
        self.loads = dict(zip(LOADS, loads_HxL.T, strict=True))
        self.hardware = {name: np.array([getattr(host, name) for host in hosts]) for name in HARDWARE}


def _upstream(operator: int, operators: int, streams: Sequence[tuple[int, int]]) -> np.ndarray:
    found = np.zeros(operators, bool)
    found[operator] = True
    for producer, consumer in sorted(streams, key=lambda stream: -stream[1]):
        found[producer] |= found[consumer]
    return found
