"""Joins with a side that changes slowly: its tuples take time and go no further, whatever deals them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.twin.changing import HOSTS
from tests.twin.worlds import deployment, joined, simulated, sink, source
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.events import AnyEvent, Failure, Scale
from twin.rates.model import RateModel
from twin.rates.numa_job import NumaJob
from twin.run import Run
from twin.scenario import RunSettings, Scenario

ORDERS, PRICES, SERVICE_S = 200.0, 50.0, 2e-3


def job(how: str | None = None, replicas: int = 1, hosts: Any = None, **more: Any) -> Deployment:
    """orders, joined with prices, which change."""
    join = {"kind": "temporal-join", "name": "priced", "side": "prices", "service_time_s": SERVICE_S} | more
    places: dict[str, Any] = {"priced": {"h": replicas}}
    if hosts is not None:
        places = {"orders": "h0", "prices": "h0", "priced": ["h1", "h2"], "sink": "h3"}
    made = joined(join, {"orders": ORDERS, "prices": PRICES}, hosts=hosts, placement=places).model_dump()
    made["query"]["streams"][1]["partitioning"] = how
    return Deployment.model_validate(made)


def ran(what: Deployment, horizon_s: float = 60.0, events: tuple[AnyEvent, ...] = ()) -> Run:
    return simulated(what, *events, horizon_s=horizon_s, warmup_s=horizon_s / 6, period_s=horizon_s / 12)


@pytest.mark.parametrize("selectivity", [1.0, 0.4, 2.0])
def test_what_changes_the_table_takes_time_and_leaves_nothing(selectivity: float) -> None:
    """Tuples of both inputs wait in one M/D/1; results are those of the orders alone."""
    found = ran(job(selectivity=selectivity, service_scv=0))
    assert found.metrics.throughput_per_s == pytest.approx(ORDERS * selectivity, rel=0.05)
    priced = next(each for each in found.operators if each.operator == "priced")
    load = (ORDERS + PRICES) * SERVICE_S
    assert priced.busy == pytest.approx(load, rel=0.05)
    wait_s = SERVICE_S + load * SERVICE_S / 2 / (1 - load)
    assert found.metrics.processing_latency_s.mean == pytest.approx(wait_s, rel=0.12)


@pytest.mark.parametrize("how", [None, "broadcast"])
def test_the_rate_model_tells_what_runs_show(how: str | None) -> None:
    """Two replicas; with a broadcast side each gets all changes."""
    given = job(how, replicas=2)
    says, found = RateModel().predict(Scenario.of(given, RunSettings()), [given.plan]), ran(given)
    assert says["throughput_per_s"][0] == pytest.approx(found.metrics.throughput_per_s, rel=0.05)
    assert says["processing_latency_s"][0] == pytest.approx(found.metrics.processing_latency_s.mean, rel=0.12)


def test_results_are_as_old_as_the_tuples_that_found_a_row() -> None:
    """Changes come over a link of 300 ms, orders do not."""
    far = {"name": "far", "cpu_percent": 400, "ram_mb": 4096, "bandwidth_mbps": 1000, "latency_ms": 300}
    near = far | {"name": "h", "latency_ms": 0}
    join = {"kind": "temporal-join", "name": "priced", "side": "prices", "service_time_s": 1e-4}
    places = {"orders": ["h"], "prices": ["far"], "priced": ["h"], "sink": ["h"]}
    given = joined(join, {"orders": 100, "prices": 100}, hosts=[near, far], placement=places)
    says = RateModel().predict(Scenario.of(given, RunSettings()), [given.plan])
    assert says["processing_latency_s"][0] < 1e-3
    found = ran(given, 12.0).metrics.processing_latency_s
    assert found is not None and found.mean < 1e-3


def test_its_table_moves_and_nothing_is_lost() -> None:
    """Key groups hold the table; the laws of conservation are checked at the end of each run."""
    given = job(hosts=HOSTS, key_groups=16, state_bytes_per_group=1e6)
    for event in (
        Scale(at_s=4, operator="priced", placement=["h1", "h2", "h3"]),
        Failure(at_s=5, host="h1", recover_after_s=1),
    ):
        found = ran(given, 12.0, (event,))
        unique = found.metrics.tuples_out - found.duplicates
        assert unique == pytest.approx(ORDERS * 10, rel=0.15)
    widened = ran(given, 12.0, (Scale(at_s=4, operator="priced", placement=["h1", "h2", "h3"]),))
    (row,) = [each for each in widened.event_rows if each["kind"] == "scale"]
    assert row["bytes"] > 0


def test_a_side_that_cannot_be_is_one_line() -> None:
    with pytest.raises(BadInput, match="side 'princes', from which no stream comes; its inputs are orders, prices"):
        job(side="princes")
    join = {"kind": "temporal-join", "name": "priced", "side": "prices"}
    with pytest.raises(BadInput, match="no input but its side 'prices'"):
        deployment([source("prices"), join, sink()], [("prices", "priced"), ("priced", "sink")], {"prices": 1})
    with pytest.raises(BadInput, match="'priced' passes on tuples of some inputs only"):
        NumaJob(job())
