"""The vector of the Flat Vector baseline (Costream, Section VII), for gradient-boosted trees.

As in the authors' code it knows the query and its rates: counts of the operator kinds, mean selectivities, mean event
rate; and, as the paper says that it was extended ("streaming queries and placement information"), what a vector can
hold of placement and hardware: features of the hosts that operators are on, how many these are, and what leaves them.
It does not know which operator is where. They train on raw labels; on log labels the same trees are far better, so both
are reported.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence

from models.description import HARDWARE
from models.facts import OperatorFacts
from models.features import LEARNED, require_learned
from twin.deployment import Deployment

FLAT_NAMES: tuple[str, ...] = (
    *(f"{kind}s" for kind in LEARNED),
    "mean_filter_selectivity",
    "mean_join_selectivity",
    "mean_aggregate_selectivity",
    "mean_event_rate_per_s",
    "hosts_used",
    "operators_on_the_fullest_host",
    "share_of_streams_between_hosts",
    *(f"{feature}_{over}" for feature in HARDWARE for over in ("mean", "min", "max")),
)
"""The entries of the vector."""

FLAT_VERSION: str = hashlib.sha256("|".join(FLAT_NAMES).encode()).hexdigest()[:12]
"""12 hex digits over the entries."""


def flat_vector(deployment: Deployment, facts: Sequence[OperatorFacts]) -> list[float]:
    """The vector of a deployment, in the order of FLAT_NAMES; facts: of its operators. A mean over nothing is NaN,
    which LightGBM knows.

    Raises BadInput if models know no operators of one of the kinds.
    """
    require_learned(facts)
    by_kind = {kind: [each for each in facts if each.spec.kind == kind] for kind in LEARNED}

    def mean(values: Sequence[float]) -> float:
        return sum(values) / len(values) if values else float("nan")

    return [
        *(float(len(by_kind[kind])) for kind in LEARNED),
        *(mean([each.selectivity for each in by_kind[kind]]) for kind in ("filter", "join", "aggregate")),
        mean([each.rates.in_per_s for each in by_kind["source"]]),
        *_placed(deployment),
    ]


def _placed(deployment: Deployment) -> list[float]:
    """Of an operator with replicas on several hosts each counts."""
    plan, query = deployment.plan, deployment.query
    hosts = {each.name: {place.host for place in plan.locations(each.name)} for each in query.operators}
    on = Counter(host for each in hosts.values() for host in each)
    away = [hosts[stream.producer] != hosts[stream.consumer] for stream in query.streams]
    used = [host for host in deployment.cluster.hosts for _ in range(on[host.name])]
    hardware = [[float(getattr(host, feature)) for host in used] for feature in HARDWARE]
    return [
        float(len(on)),
        float(max(on.values())),
        sum(away) / len(away),
        *(value for each in hardware for value in (sum(each) / len(each), min(each), max(each))),
    ]
