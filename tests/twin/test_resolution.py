"""How finely fast runs follow time, and where they have to: on processors that many tasks fill."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.twin.worlds import HOST, chain, deployment, sink, source
from twin.deployment import Deployment
from twin.job import compile
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate
from twin.wiring.fullness import full_places, work_per_s
from twin.wiring.resolution import FINER, FULL, PARTS, ROOM_PARTS, USUAL_SEGMENTS, resolution

SETTINGS = RunSettings(horizon_s=240.0)
USUAL_S = SETTINGS.horizon_s / USUAL_SEGMENTS


def working(name: str, service_s: float) -> dict[str, Any]:
    return {"kind": "filter", "name": name, "selectivity": 1, "service_time_s": service_s}


def in_line(load: float, rate: float = 800.0, cores: float = 1.0, **more: Any) -> Deployment:
    """Two filters of equal work that together need that share of the cores which all four tasks share."""
    middle = [working(name, load * cores / rate / 2.0) for name in ("f0", "f1")]
    return chain(middle, rate, hosts=[HOST | {"cpu_percent": 100.0 * cores}], **more)


def two_sided(window: dict[str, Any], load: float, rate: float = 300.0) -> Deployment:
    join = {"kind": "join", "name": "join", "window": window, "selectivity": 0.001, "service_time_s": load / rate / 2.0}
    return deployment(
        [source("left"), source("right"), join, sink()],
        [("left", "join"), ("right", "join"), ("join", "sink")],
        {"left": rate, "right": rate},
        hosts=[HOST | {"cpu_percent": 100.0}],
    )


def test_segments_are_a_small_part_of_a_channel_where_tasks_fill_their_cores() -> None:
    job = in_line(1.2)
    room = min(edge.room for edge in compile(job).edges)
    span_s = resolution(job, SETTINGS).span_s
    assert span_s == pytest.approx(max(room / ROOM_PARTS / 800.0, USUAL_S / FINER))
    assert USUAL_S / FINER < span_s < USUAL_S


@given(load=st.floats(0.1, 3.0), rate=st.floats(10.0, 50_000.0), cores=st.sampled_from([0.5, 1.0, 3.0]))
def test_segments_are_finer_only_where_cores_are_full_and_never_by_more_than_said(
    load: float, rate: float, cores: float
) -> None:
    span_s = resolution(in_line(load, rate, cores), SETTINGS).span_s
    assert USUAL_S / FINER * (1 - 1e-9) <= span_s <= USUAL_S
    if load < FULL * 0.999:
        assert span_s == USUAL_S
    if load > FULL * 1.001 and rate > 2000.0:
        assert span_s == pytest.approx(USUAL_S / FINER)


def test_whoever_has_cores_of_its_own_is_followed_as_ever() -> None:
    apart = [HOST | {"name": f"h{k}", "cpu_percent": 100.0} for k in range(4)]
    middle = [working(name, 1.2 / 800.0) for name in ("f0", "f1")]
    placed = {"source": "h0", "f0": "h1", "f1": "h2", "sink": "h3"}
    assert resolution(chain(middle, 800.0, hosts=apart, placement=placed), SETTINGS).span_s == USUAL_S
    assert resolution(in_line(1.2, cores=4.0), SETTINGS).span_s == USUAL_S  # four tasks on four cores


def test_where_half_of_the_streams_cross_hosts_time_is_followed_as_ever() -> None:
    hosts = [HOST | {"name": name, "cpu_percent": 100.0} for name in ("h", "far")]
    middle = [working(name, 1.2 / 800.0) for name in ("f0", "f1", "f2")]
    half = chain(middle, 800.0, hosts=hosts, placement={"f1": "far", "f2": "far"})
    quarter = chain(middle, 800.0, hosts=hosts, placement={"f1": "far", "f2": "far", "sink": "far"})
    assert len(full_places(compile(half), FULL)) == len(full_places(compile(quarter), FULL)) == 2
    assert resolution(half, SETTINGS).span_s == USUAL_S
    assert resolution(quarter, SETTINGS).span_s < USUAL_S


def test_a_window_of_several_sides_that_counts_is_resolved_by_its_tuples() -> None:
    usual_s = 2 * USUAL_S  # of two sources
    counted = resolution(two_sided({"policy": "count", "size_tuples": 400}, 1.1), SETTINGS).span_s
    assert counted == pytest.approx(400 / 600.0 / PARTS)
    assert usual_s / FINER < counted < resolution(two_sided({"policy": "time", "size_s": 2.0}, 1.1), SETTINGS).span_s
    assert resolution(two_sided({"policy": "count", "size_tuples": 400}, 0.5), SETTINGS).span_s == usual_s


def test_segments_that_are_set_are_kept() -> None:
    settings = SETTINGS.model_copy(update={"segments": 100})
    assert resolution(in_line(1.2), settings).span_s == pytest.approx(2.4)


@pytest.mark.parametrize("replicas", [1, 3])
def test_the_work_that_rates_foretell_is_what_a_run_does(replicas: int) -> None:
    middle = [
        working("f0", 0.0005),
        {"kind": "join", "name": "join", "window": {"policy": "time", "size_s": 0.5}, "selectivity": 0.002},
    ]
    job = deployment(
        [source("left"), source("right"), *middle, sink()],
        [("left", "f0"), ("f0", "join"), ("right", "join"), ("join", "sink")],
        {"left": 300.0, "right": 200.0},
        placement={"f0": ["h"] * replicas},
    )
    run = simulate(Scenario.of(job, RunSettings(fidelity="fast", horizon_s=60.0, seed=3)))
    busy = {each.operator: each.busy for each in run.operators}
    for each in compile(job).components:
        cores = busy[each.name] * each.replicas
        assert cores == pytest.approx(work_per_s(compile(job), each), rel=0.05, abs=0.002)


@given(load=st.floats(0.05, 3.0), cores=st.sampled_from([0.5, 1.0, 3.0]), share=st.floats(0.1, 2.0))
def test_a_place_is_full_when_its_tasks_need_that_share_of_it(load: float, cores: float, share: float) -> None:
    assume(abs(load / share - 1.0) > 1e-6)
    assert bool(full_places(compile(in_line(load, cores=cores)), share)) == (load > share)
