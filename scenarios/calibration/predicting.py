"""Predicts the readings of an operating point by the rate model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from twin.markers import by_operator
from twin.query import Query
from twin.rates.answer import RateAnswer, markers_of
from twin.rates.model import RateModel
from twin.scenario import Scenario

SLOWED = 1.0 - 1e-3
"""Share of its offer below which a source counts as slowed."""


@dataclass(frozen=True, slots=True)
class Predicted:
    """Predicted readings of one point. delivered: share of the offer by source. margin: logarithm of that share where a
    source is slowed; else of the factor by which its offer could grow. busy: by operator; cpu: by host; latency_s: of
    results, mean; markers_s: ages of latency markers by operator.
    """

    delivered: Mapping[str, float]
    margin: Mapping[str, float]
    busy: Mapping[str, float]
    cpu: Mapping[str, float]
    latency_s: float
    markers_s: Mapping[str, float]


def predict(scenario: Scenario, answer: RateAnswer | None = None) -> Predicted:
    """Predicts the readings of a scenario under its profile. answer: the rate model's, if it is known already."""
    answer = answer or RateModel().answer(scenario, [scenario.plan])
    delivered = dict(zip(answer.sources, answer.delivered[0].tolist(), strict=True))
    pressure = dict(zip(answer.operators, answer.offered_pressure[0].tolist(), strict=True))
    margin = {
        name: float(np.log(max(share, 1e-9))) if share < SLOWED else _room(scenario.query, name, pressure)
        for name, share in delivered.items()
    }
    return Predicted(
        delivered=delivered,
        margin=margin,
        busy=dict(zip(answer.operators, answer.used[0].tolist(), strict=True)),
        cpu=dict(zip(answer.hosts, np.minimum(answer.cpu[0], 1.0).tolist(), strict=True)),
        latency_s=float(answer.costs["processing_latency_s"][0]),
        markers_s=by_operator(markers_of(answer, scenario.query)),
    )


def _room(query: Query, source: str, pressure: Mapping[str, float]) -> float:
    """Logarithm of the factor by which the load of a source could grow."""

    met = [name for name in pressure if name == source or source in query.ancestors(name)]
    return max(0.0, -float(np.log(max(1e-9, *(pressure[name] for name in met)))))
