"""Tuples that one tuple makes come to the next operator at one moment: a queue with arrivals in groups, M^[b]/G/1."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.twin.worlds import chain
from twin.deployment import Deployment
from twin.job import compile
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate
from twin.wiring.together import beside, together

SERVICE_S = 2e-4
KINDS = ("fast", "exact")


def splitting(made: float, load: float, scv: float = 1.0, replicas: int = 1, engine: str = "storm") -> Deployment:
    """Groups at random times, of a splitter that costs nothing; each replica of the queue has that load."""
    rate_per_s = load * replicas / made / SERVICE_S
    middle = [
        {"kind": "map", "name": "split", "selectivity": made, "service_time_s": 0},
        {"kind": "map", "name": "queue", "service_time_s": SERVICE_S, "service_scv": scv},
    ]
    return chain(middle, rate_per_s, placement={"queue": {"h": replicas}}, engine=engine)


def sojourn_s(together: float, load: float, scv: float) -> float:
    """Of M^[b]/G/1: the group waits as one customer, and in it each tuple for its turn (Kleinrock, vol. 1, 4.6)."""
    return SERVICE_S * (1 + (load * (1 + scv) + together - 1) / 2 / (1 - load))


@pytest.mark.parametrize(
    ("made", "load", "scv", "fidelity"),
    [(10, 0.3, 1.0, "exact"), (10, 0.3, 1.0, "fast"), (20, 0.6, 0.0, "fast"), (4, 0.6, 1.0, "fast")],
)
def test_what_comes_together_waits_for_each_other(made: int, load: float, scv: float, fidelity: str) -> None:
    """In segments of many groups: of few, those of single tuples hide too little, too."""
    settings = RunSettings(horizon_s=20, warmup_s=2, period_s=2, fidelity=fidelity, seed=1, segments=100)
    found = simulate(Scenario.of(splitting(made, load, scv), settings)).metrics.processing_latency_s
    assert found
    assert found.mean == pytest.approx(sojourn_s(made, load, scv), rel=0.15)


@given(st.floats(0.01, 60))
def test_the_others_of_a_group_are_counted(made: float) -> None:
    """Rounded down or up at random: b of which E[b (b - 1)] / E[b] are seen by one of them."""
    whole = int(made)
    more = made - whole
    expected = ((1 - more) * whole * (whole - 1) + more * (whole + 1) * whole) / made
    assert beside(made) == pytest.approx(expected, abs=1e-9)


def test_replicas_share_a_group_and_batches_count_for_themselves() -> None:
    assert together(compile(splitting(12, 0.5)), "queue") == pytest.approx(12)
    assert together(compile(splitting(12, 0.5, replicas=4)), "queue") == pytest.approx(3)
    assert together(compile(splitting(12, 0.5, engine="flink")), "queue") == 1
    assert together(compile(splitting(12, 0.5)), "split") == together(compile(splitting(12, 0.5)), "source") == 1


def test_what_goes_straight_on_stays_together() -> None:
    """Each replica passes all that it makes to its own one."""
    job = splitting(12, 0.5, replicas=4)
    streams = [
        each.model_copy(update={"partitioning": "forward"}) if each.consumer == "queue" else each
        for each in job.query.streams
    ]
    query = job.query.model_copy(update={"streams": tuple(streams)})
    plan = job.plan.model_copy(update={"placement": {**job.plan.placement, "split": ("h",) * 4}})
    forward = job.model_copy(update={"query": query, "plan": plan})
    assert together(compile(forward), "queue") == pytest.approx(12)
    runs = [RunSettings(horizon_s=6, warmup_s=1, period_s=1, seed=1, segments=100, fidelity=each) for each in KINDS]
    found = [simulate(Scenario.of(forward, each)).metrics.processing_latency_s for each in runs]
    assert found[0] and found[1]
    assert found[0].mean == pytest.approx(found[1].mean, rel=0.15)
