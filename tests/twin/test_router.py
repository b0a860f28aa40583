"""Routers: a share of the records on each stream, none twice where shares allow it, and none lost."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.twin.changing import HOSTS
from tests.twin.worlds import HOST, chain, deployment, simulated, sink, source
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.events import AnyEvent, Failure, Scale
from twin.rates.coefficients import PlacementCoefficients
from twin.rates.model import RateModel
from twin.run import Run
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate


def routing(
    shares: dict[str, float],
    hosts: Any = None,
    placement: Any = None,
    rate_per_s: float = 200.0,
    engine: Any = "storm",
    **late: Any,
) -> Deployment:
    """Job source -> router -> main and late, each with a sink of its own."""
    operators = [
        source(),
        {"kind": "router", "name": "router", "service_time_s": 1e-4, "shares": shares},
        {"kind": "map", "name": "main", "service_time_s": 1e-4},
        {"kind": "map", "name": "late", "service_time_s": 1e-4} | late,
        sink("out"),
        sink("aside"),
    ]
    streams = [("source", "router"), ("router", "main"), ("router", "late"), ("main", "out"), ("late", "aside")]
    return deployment(operators, streams, {"source": rate_per_s}, hosts, placement, engine)


def ran(job: Deployment, events: tuple[AnyEvent, ...] = ()) -> Run:
    return simulated(job, *events, horizon_s=10.0, warmup_s=2.0, period_s=1.0)


def taken(found: Run) -> dict[str, int]:
    return {each.operator: each.records_in for each in found.operators}


SHARES = [(0.9, 0.1), (0.5, 0.2), (0.8, 0.8)]


@pytest.mark.parametrize(("main", "late"), SHARES)
def test_each_stream_gets_its_share(main: float, late: float) -> None:
    """Each stream gets a binomial number of records; those of exclusive streams add up to all that went anywhere."""
    job = routing({"main": main, "late": late}, placement={"router": {"h": 2}, "late": {"h": 3}})
    found = ran(job)
    count = taken(found)
    n = count["router"]
    for name, share in (("main", main), ("late", late)):
        assert abs(count[name] - n * share) <= 4 * math.sqrt(n * share * (1 - share)) + 40
    router = next(each for each in found.operators if each.operator == "router")
    if main + late <= 1:
        assert abs(router.records_out - count["main"] - count["late"]) < 40
        if main + late == 1:
            assert abs(router.records_out - n) < 40
    else:
        assert abs(router.records_out - n) < 40


@pytest.mark.parametrize(("main", "late"), SHARES)
def test_the_rate_model_knows_what_each_stream_carries(main: float, late: float) -> None:
    scenario = Scenario.of(routing({"main": main, "late": late}, [HOST, HOST | {"name": "g"}], {"late": "g"}))
    answer = RateModel().answer(scenario, [scenario.plan])
    into = dict(zip(answer.operators, answer.in_per_s[0], strict=True))
    assert into["out"] == pytest.approx(200 * main)
    assert into["aside"] == pytest.approx(200 * late)
    share_nol = (answer.busy_cores > -1)[:, :, None] * [[[0.0, 1.0] if n == "late" else [1.0, 0.0] for n in into]]
    assert PlacementCoefficients.of(scenario).loads(share_nol).cpu_nl == pytest.approx(answer.offered_cpu)


def test_a_slow_side_output_holds_all_of_them_back() -> None:
    """A side output of 10 % of the records that serves 50 a second holds the source back to 500."""
    job = routing({"main": 0.9, "late": 0.1}, None, None, 1000.0, service_time_s=0.02, service_scv=0)
    scenario = Scenario.of(job, RunSettings(horizon_s=120, warmup_s=60))
    found, rates = simulate(scenario), RateModel().predict(scenario, [scenario.plan])
    assert found.metrics.backpressured
    assert found.metrics.throughput_per_s == pytest.approx(500, rel=0.03)
    assert rates["throughput_per_s"][0] == pytest.approx(500, rel=0.03)


def test_a_router_spaces_records_as_a_filter_does() -> None:
    """Records that one consumer gets, chosen by chance from even ones, come as irregularly as behind a filter."""
    chosen: list[dict[str, Any]] = [
        {"kind": "router", "name": "some", "service_time_s": 1e-4, "shares": {"main": 0.1}},
        {"kind": "filter", "name": "some", "service_time_s": 1e-4, "selectivity": 0.1},
    ]
    main, law = {"kind": "map", "name": "main", "service_time_s": 0.004}, {"law": "constant", "rate_per_s": 2000}
    jobs = [Scenario.of(chain([each, main], law), RunSettings(horizon_s=120)) for each in chosen]
    routed, filtered = (RateModel().predict(job, [job.plan])["processing_latency_s"][0] for job in jobs)
    assert routed == pytest.approx(filtered)


@pytest.mark.parametrize("shares", [{"main": 0.7, "late": 0.2}, {"main": 1.0, "late": 0.5}])
def test_changes_keep_the_law_of_streams(shares: dict[str, float]) -> None:
    """Streams keep conservation over changes, as guards check at the end of the run."""
    places = {"source": "h0", "router": ["h0", "h1"], "main": "h2", "late": "h3", "out": "h2", "aside": "h3"}
    job = routing(shares, HOSTS, places)
    ran(job, (Failure(at_s=3, host="h1", recover_after_s=1),))
    found = ran(job, (Scale(at_s=3, operator="router", placement={"h1": 1}),))
    assert taken(found)["late"] == pytest.approx(200 * 8 * shares["late"], rel=0.2)


@pytest.mark.parametrize(
    ("shares", "words"),
    [
        ({"main": 0.9}, "gives no share to its consumer 'late'; add 'late: SHARE'"),
        ({"main": 0.9, "late": 0.1, "lost": 0.1}, "gives a share to 'lost', to which no stream leads"),
        ({"main": 0.9, "late": 1.5}, "less than or equal to 1|at most 1"),
    ],
)
def test_shares_are_of_consumers(shares: dict[str, float], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        routing(shares)
