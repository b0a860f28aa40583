"""The vector of the Flat Vector baseline (Costream, Section VII), for gradient-boosted trees.

As in the authors' code it knows the query and its rates, not the placement: counts of the operator kinds, mean
selectivities, mean event rate. They train on raw labels; on log labels the same trees are far better, so both are
reported.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from models.facts import OperatorFacts
from models.features import LEARNED, require_learned

FLAT_NAMES: tuple[str, ...] = (
    *(f"{kind}s" for kind in LEARNED),
    "mean_filter_selectivity",
    "mean_join_selectivity",
    "mean_aggregate_selectivity",
    "mean_event_rate_per_s",
)
"""The entries of the vector."""

FLAT_VERSION: str = hashlib.sha256("|".join(FLAT_NAMES).encode()).hexdigest()[:12]
"""12 hex digits over the entries."""


def flat_vector(facts: Sequence[OperatorFacts]) -> list[float]:
    """The vector of a query, in the order of FLAT_NAMES. A mean over nothing is NaN, which LightGBM knows.

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
    ]
