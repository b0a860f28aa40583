"""Interval joins by brute force and arithmetic, and joins with a side that changes slowly, however it is dealt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.twin.changing import HOSTS
from tests.twin.worlds import HOST, deployment, joined, simulated, sink, source
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.events import AnyEvent, Failure, Migration, Scale
from twin.rates.model import RateModel
from twin.rates.numa_rates import NumaJob
from twin.run import Run
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate
from twin.spec import parse

ORDERS, SHIPMENTS = 60.0, 40.0
BOUNDS = [(-1.0, 1.0), (0.0, 1.5), (0.25, 1.0), (-2.0, -0.5), (-0.5, 2.0)]


def job(
    lower_s: float,
    upper_s: float,
    laws: Any = None,
    parallelism: int = 1,
    hosts: Any = None,
    end: Any = None,
    **more: Any,
) -> Deployment:
    """Job of orders joined with shipments; service takes no time by default."""
    join = {"kind": "interval-join", "name": "join", "left": "orders", "right": "shipments", "keys": 1}
    join |= {"lower_s": lower_s, "upper_s": upper_s, "service_time_s": 0} | more
    laws = laws or {"orders": ORDERS, "shipments": SHIPMENTS}
    places: dict[str, Any] = {"join": {"h": parallelism}}
    if hosts is not None:
        places = {"orders": "h0", "shipments": "h0", "join": ["h1", "h2"], "sink": "h3"}
    return joined(join, laws, end, hosts=hosts, placement=places)


def ran(what: Deployment, horizon_s: float = 40.0, seed: int = 1, events: tuple[AnyEvent, ...] = ()) -> Run:
    return simulated(what, *events, horizon_s=horizon_s, warmup_s=horizon_s / 6, period_s=horizon_s / 12, seed=seed)


@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("late_s", [0.0, 0.3])
def test_matches_are_those_of_brute_force(bounds: tuple[float, float], late_s: float, tmp_path: Path) -> None:
    """Matches of recorded arrivals of one key are all pairs within the bounds, with their ages.

    Orders that are late on their way meet what was taken after them: the older of both counts, whichever comes last.
    """
    rng, laws, times = np.random.default_rng(7), {}, {}
    for name, count in (("orders", 120), ("shipments", 90)):
        times[name] = np.sort(rng.uniform(0.0, 20.0, count))
        path = tmp_path / f"{name}.csv"
        path.write_text("\n".join(["time_s", *(f"{each:.6f}" for each in times[name])]))
        laws[name] = {"law": "replay", "path": str(path), "start_s": 0.0}
    orders, shipments = times["orders"][:, None], times["shipments"][None, :]
    come_s, after_s = np.maximum(orders + late_s, shipments), shipments - orders - late_s
    met = (bounds[0] <= after_s) & (after_s <= bounds[1]) & (come_s < 15.0)
    data = job(*bounds, laws).model_dump(mode="json", exclude_none=True)
    data["cluster"]["hosts"].append({**HOST, "name": "far", "latency_ms": 1e3 * late_s})
    data["plan"]["placement"]["orders"] = "far"
    made = Scenario.of(parse(Deployment, data), RunSettings(horizon_s=15.0, warmup_s=0.0, period_s=5.0))
    metrics = simulate(made).metrics
    assert metrics.records_out == met.sum()
    assert metrics.processing_latency_s.mean == pytest.approx(
        (come_s - np.minimum(orders, shipments))[met].mean(), abs=2e-3
    )


@pytest.mark.parametrize(
    ("parallelism", "more"),
    [(1, {"keys": 40}), (2, {"keys": 40}), (2, {"keys": 40, "key_groups": 8}), (1, {"keys": 7})],
)
def test_rates_and_ages_are_those_of_poisson_streams(parallelism: int, more: dict[str, Any]) -> None:
    """Matches come at rate_a rate_b (upper - lower) / keys, and are E|D| old, with D anything between the bounds."""
    lower_s, upper_s = -0.5, 2.0
    made = job(lower_s, upper_s, parallelism=parallelism, **more)
    runs = [ran(made, seed=seed).metrics for seed in range(8)]
    expected = ORDERS * SHIPMENTS * (upper_s - lower_s) / more["keys"]
    age_s = (lower_s**2 + upper_s**2) / 2.0 / (upper_s - lower_s)
    assert np.mean([run.throughput_per_s for run in runs]) == pytest.approx(expected, rel=0.03)
    assert np.mean([run.value("processing_latency_s") for run in runs]) == pytest.approx(age_s, rel=0.02)
    scenario = Scenario.of(made)
    said = RateModel(horizon_s=1e5).predict(scenario, [made.plan])
    assert not RateModel().blind_to(scenario)
    assert said["throughput_per_s"][0] == pytest.approx(expected, rel=1e-3)
    assert said["processing_latency_s"][0] == pytest.approx(age_s, rel=0.01)


def test_each_side_is_held_for_as_long_as_it_can_meet_the_other() -> None:
    """By Little's law, orders are held for the upper bound, and shipments for the reach of the lower one."""
    made = job(-0.5, 2.0, keys=40, record_bytes=1)
    held = [row["stateBytes"] for row in ran(made).operator_rows if row["operator"] == "join"][3:]
    size = made.engine.input_bytes(made.query, "join")
    assert np.mean(held) / size == pytest.approx(ORDERS * 2.0 + SHIPMENTS * 0.5, rel=0.1)
    assert not [row for row in ran(job(0.25, 0.5)).operator_rows if row["operator"] == "join" and row["stateBytes"] < 0]


def test_what_it_bears_grows_with_the_root_of_what_comes_after() -> None:
    """A job with a sink that 50 matches a second, of 5 ms, use by a quarter is full at twice the rates."""
    for factor in (1.0, 2.0):
        laws = {"orders": factor * ORDERS, "shipments": factor * SHIPMENTS}
        made = job(0.0, 1.0, laws, end=sink(service_time_s=5e-3), keys=48)
        pressure = RateModel().answer(made, [made.plan]).offered_pressure.max()
        assert pressure == pytest.approx(factor**2 / 4.0, rel=2e-3)


@pytest.mark.parametrize(
    "event",
    [
        Failure(at_s=21.0, host="h1", recover_after_s=3.0),
        Scale(at_s=20.0, operator="join", placement=("h1", "h2", "h3")),
        Migration(at_s=20.0, operator="join", key_groups=(0, 1), to_subtask=1),
    ],
)
def test_what_is_held_outlives_failures_scaling_and_moves(event: AnyEvent) -> None:
    """After failures, scaling and moves, matches come as before."""
    made = job(-0.5, 1.0, keys=40, key_groups=8, hosts=HOSTS)
    with_it = ran(made, 48.0, events=(event,))
    late = [row for row in with_it.operator_rows if row["operator"] == "join" and row["start_s"] >= 30.0]
    sent = sum(row["numRecordsOut"] for row in late) / sum(row["end_s"] - row["start_s"] for row in late)
    assert sent == pytest.approx(ORDERS * SHIPMENTS * 1.5 / 40, rel=0.15)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"upper_s": -3.0}, "give a lower bound below the upper one"),
        ({"left": "prices"}, "joins 'prices' with 'shipments', but its inputs are orders, shipments"),
    ],
)
def test_mistakes_get_a_line(more: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        job(-1.0, **{"upper_s": 1.0} | more)


BOUGHT, PRICES, SERVICE_S = 200.0, 50.0, 2e-3


def with_prices(how: str | None = None, parallelism: int = 1, hosts: Any = None, **more: Any) -> Deployment:
    """Job of orders, joined with prices, which change."""
    join = {"kind": "temporal-join", "name": "priced", "side": "prices", "service_time_s": SERVICE_S} | more
    places: dict[str, Any] = {"priced": {"h": parallelism}}
    if hosts is not None:
        places = {"orders": "h0", "prices": "h0", "priced": ["h1", "h2"], "sink": "h3"}
    made = joined(join, {"orders": BOUGHT, "prices": PRICES}, hosts=hosts, placement=places).model_dump()
    made["query"]["streams"][1]["partitioning"] = how
    return Deployment.model_validate(made)


def ran_prices(what: Deployment, horizon_s: float = 60.0, events: tuple[AnyEvent, ...] = ()) -> Run:
    return simulated(what, *events, horizon_s=horizon_s, warmup_s=horizon_s / 6, period_s=horizon_s / 12)


@pytest.mark.parametrize("selectivity", [1.0, 0.4, 2.0])
def test_what_changes_the_table_takes_time_and_leaves_nothing(selectivity: float) -> None:
    """Records of both inputs wait in one M/D/1; results are those of the orders alone."""
    found = ran_prices(with_prices(selectivity=selectivity, service_scv=0))
    assert found.metrics.throughput_per_s == pytest.approx(BOUGHT * selectivity, rel=0.05)
    priced = next(each for each in found.operators if each.operator == "priced")
    load = (BOUGHT + PRICES) * SERVICE_S
    assert priced.busy == pytest.approx(load, rel=0.05)
    wait_s = SERVICE_S + load * SERVICE_S / 2 / (1 - load)
    assert found.metrics.processing_latency_s.mean == pytest.approx(wait_s, rel=0.12)


@pytest.mark.parametrize("how", [None, "broadcast"])
def test_the_rate_model_tells_what_runs_show(how: str | None) -> None:
    """The rate model agrees with runs of two subtasks; with a broadcast side each gets all changes."""
    given = with_prices(how, parallelism=2)
    says, found = RateModel().predict(Scenario.of(given, RunSettings()), [given.plan]), ran_prices(given)
    assert says["throughput_per_s"][0] == pytest.approx(found.metrics.throughput_per_s, rel=0.05)
    assert says["processing_latency_s"][0] == pytest.approx(found.metrics.processing_latency_s.mean, rel=0.12)


def test_results_are_as_old_as_the_records_that_found_a_row() -> None:
    """Results are as old as orders, not as the changes, which come over a link of 300 ms."""
    far = {"name": "far", "cpu_percent": 400, "ram_mb": 4096, "bandwidth_mbps": 1000, "latency_ms": 300}
    near = far | {"name": "h", "latency_ms": 0}
    join = {"kind": "temporal-join", "name": "priced", "side": "prices", "service_time_s": 1e-4}
    places = {"orders": ["h"], "prices": ["far"], "priced": ["h"], "sink": ["h"]}
    given = joined(join, {"orders": 100, "prices": 100}, hosts=[near, far], placement=places)
    says = RateModel().predict(Scenario.of(given, RunSettings()), [given.plan])
    assert says["processing_latency_s"][0] < 1e-3
    found = ran_prices(given, 12.0).metrics.processing_latency_s
    assert found is not None and found.mean < 1e-3


def test_its_table_moves_and_nothing_is_lost() -> None:
    """The table moves with key groups, and nothing is lost, as conservation checks at the end of each run."""
    given = with_prices(hosts=HOSTS, key_groups=16, state_bytes_per_group=1e6)
    for event in (
        Scale(at_s=4, operator="priced", placement=["h1", "h2", "h3"]),
        Failure(at_s=5, host="h1", recover_after_s=1),
    ):
        found = ran_prices(given, 12.0, (event,))
        unique = found.metrics.records_out - found.duplicates
        assert unique == pytest.approx(BOUGHT * 10, rel=0.15)
    widened = ran_prices(given, 12.0, (Scale(at_s=4, operator="priced", placement=["h1", "h2", "h3"]),))
    (row,) = [each for each in widened.event_rows if each["kind"] == "scale"]
    assert row["bytes"] > 0


def test_a_side_that_cannot_be_is_one_line() -> None:
    with pytest.raises(BadInput, match="side 'princes', from which no stream comes; its inputs are orders, prices"):
        with_prices(side="princes")
    join = {"kind": "temporal-join", "name": "priced", "side": "prices"}
    with pytest.raises(BadInput, match="no input but its side 'prices'"):
        deployment([source("prices"), join, sink()], [("prices", "priced"), ("priced", "sink")], {"prices": 1})
    with pytest.raises(BadInput, match="'priced' passes on records of some inputs only"):
        NumaJob(with_prices())
