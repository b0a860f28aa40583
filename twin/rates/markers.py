"""Ages of latency markers by the rate model: they wait in channels and lines, and pass windows and services by."""

from __future__ import annotations

from twin.markers import MarkerAge, marker_ages
from twin.query import Query
from twin.rates.answer import RateAnswer


def markers_of(answer: RateAnswer, query: Query, plan: int = 0) -> tuple[MarkerAge, ...]:
    """Of one of the plans, by operator and source."""
    way_s = dict(zip(answer.operators, (answer.channel_s + answer.line_s)[plan].tolist(), strict=True))
    return marker_ages(query, {(each.producer, each.consumer): way_s[each.consumer] for each in query.streams})
