"""Operators that run as one: against theory, against one operator that does it all, and against what is not allowed."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.twin import event_jobs
from tests.twin.changing import HOSTS, column
from tests.twin.changing import run as run_changing
from tests.twin.worlds import HOST, chain, deployment, sink, source
from twin.blindness import unseen_of
from twin.chaining import fused, together
from twin.deployment import Deployment
from twin.engine.logics.chain import Chain
from twin.errors import BadInput
from twin.events import AnyEvent, Failure, Migration, Scale
from twin.job import compile as compiled
from twin.plan import ExecutionPlan
from twin.rates.model import RateModel
from twin.run import Run
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate
from twin.wiring.wiring import Wiring

CONSTANT = {"law": "constant", "rate_per_s": 100}
COUNT = {"policy": "count", "size_tuples": 40, "slide_tuples": 10}
TIME = {"policy": "time", "size_s": 2, "slide_s": 0.5}
BOTH = ["exact", "fast"]


def map_(name: str, service_s: float, **more: Any) -> dict[str, Any]:
    return {"kind": "map", "name": name, "service_time_s": service_s} | more


def filter_(name: str, service_s: float, selectivity: float) -> dict[str, Any]:
    return {"kind": "filter", "name": name, "service_time_s": service_s, "selectivity": selectivity}


def counting(name: str, service_s: float, window: dict[str, Any], groups: int = 1, **more: Any) -> dict[str, Any]:
    grouped = {"group_by": "int", "groups": groups} if groups > 1 else {}
    return {"kind": "aggregate", "name": name, "service_time_s": service_s, "window": window} | grouped | more


def fuse(job: Deployment, *groups: tuple[str, ...]) -> Deployment:
    return job.with_plan(job.plan.model_copy(update={"fused": groups}))


def run(job: Deployment, fidelity: str = "exact", horizon_s: float = 20.0, **more: Any) -> Run:
    times = {"horizon_s": horizon_s, "warmup_s": horizon_s / 5, "period_s": horizon_s / 10}
    return simulate(Scenario.of(job, RunSettings(fidelity=fidelity, **(times | more))))


def totals(result: Run) -> dict[str, tuple[int, int]]:
    return {each.operator: (each.tuples_in, each.tuples_out) for each in result.operators}


def results(result: Run) -> list[dict[str, Any]]:
    """What arrived, without the operators' names, and times to the nanosecond."""
    names = ("latencyCount", "e2eLatencySum_s", "processingLatencySum_s")
    return [
        {key: round(row[key], 9) for key in names}
        for row in result.operator_rows
        if row.get("latencyCount") is not None
    ]


# against one operator that takes as long ------------------------------------------------------------------------------


@pytest.mark.parametrize("fidelity", BOTH)
def test_maps_that_are_fused_are_one_that_takes_as_long(fidelity: str) -> None:
    """Services do not vary: the same tuples come at the same times."""
    two = fuse(chain([map_("a", 2e-3), map_("b", 3e-3)], CONSTANT), ("a", "b"))
    one = chain([map_("a", 5e-3)], CONSTANT)
    found, expected = (results(run(each, fidelity, noise=False)) for each in (two, one))
    assert sum(row["latencyCount"] for row in found) > 1000
    assert found == expected


@pytest.mark.parametrize("window", [COUNT, TIME], ids=["count", "time"])
def test_a_window_behind_a_map_is_one_that_takes_as_long(window: dict[str, Any]) -> None:
    two = fuse(chain([map_("a", 2e-3), counting("b", 3e-3, window)], CONSTANT), ("a", "b"))
    one = chain([counting("a", 5e-3, window)], CONSTANT)
    found, expected = (results(run(each, noise=False)) for each in (two, one))
    assert sum(row["latencyCount"] for row in found) > 30
    assert found == expected


def test_a_sink_that_is_fused_counts_what_it_has_served() -> None:
    """5 ms each, at a constant rate: that is the latency."""
    job = deployment([source(), map_("a", 3e-3), sink(service_time_s=2e-3)], [("source", "a"), ("a", "sink")],
                     {"source": CONSTANT})  # fmt: skip
    result = run(fuse(job, ("a", "sink")), noise=False)
    assert result.metrics.e2e_latency_s.mean == pytest.approx(5e-3, abs=1e-9)
    assert [each.busy for each in result.operators] == pytest.approx([0.0, 0.5, 0.5], abs=0.01)


@pytest.mark.parametrize("fidelity", BOTH)
def test_a_source_that_is_fused_takes_a_tuple_as_it_begins_with_it(fidelity: str) -> None:
    """The processing latency is the service alone, however long a tuple waits in the broker."""
    job = fuse(chain([map_("a", 6e-3)], {"law": "poisson", "rate_per_s": 100}), ("source", "a", "sink"))
    result = run(job, fidelity, 60.0, noise=False)
    assert result.metrics.processing_latency_s.mean == pytest.approx(6e-3, rel=1e-6)
    assert result.metrics.e2e_latency_s.mean > 8e-3


# against theory -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("fidelity", "rel"), [("exact", 0.06), ("fast", 0.1)])
def test_a_fused_tandem_is_one_queue(fidelity: str, rel: float) -> None:
    """M/D/1 of both services: S + rho S / (2 (1 - rho)). Apart, the second never waits: the first's M/D/1 and S2."""
    first_s, second_s, rate = 4e-3, 2e-3, 120
    job = chain([map_("a", first_s), map_("b", second_s)], rate)
    whole_s = first_s + second_s
    for together_, service_s, rest_s in ((("a", "b"), whole_s, 0.0), ((), first_s, second_s)):
        load = rate * service_s
        expected_s = service_s + load * service_s / 2 / (1 - load) + rest_s
        result = run(fuse(job, *filter(None, [together_])), fidelity, 150.0, noise=False)
        assert result.metrics.e2e_latency_s.mean == pytest.approx(expected_s, rel=rel)


def test_a_fused_queue_with_a_filter_is_an_m_g_1() -> None:
    """Pollaczek-Khinchine: every second tuple takes b's service, too."""
    rate, first_s, second_s = 150, 2e-3, 6e-3
    job = chain([filter_("f", first_s, 0.5), map_("b", second_s)], rate)
    result = run(fuse(job, ("f", "b")), "exact", 300.0, noise=False)
    mean_s, square_s2 = first_s + second_s / 2, (first_s**2 + (first_s + second_s) ** 2) / 2
    wait_s = rate * square_s2 / 2 / (1 - rate * mean_s)
    assert result.metrics.e2e_latency_s.mean == pytest.approx(wait_s + first_s + second_s, rel=0.08)


@settings(max_examples=15, deadline=None)
@given(
    services_ms=st.lists(st.floats(0.5, 3.0), min_size=2, max_size=4),
    load=st.floats(0.2, 0.9),
    seed=st.integers(0, 99),
)
def test_fused_is_never_slower_on_the_same_core(services_ms: list[float], load: float, seed: int) -> None:
    """One core for all: apart, its tasks share it, and none of a tuple's services is done sooner for that."""
    middle = [map_(f"m{k}", each * 1e-3) for k, each in enumerate(services_ms)]
    rate = load / (sum(services_ms) * 1e-3)
    job = chain(middle, rate, hosts=[{**HOST, "cpu_percent": 100}])
    apart, as_one = (
        run(each, "exact", 8.0, noise=False, seed=seed).metrics.e2e_latency_s.mean
        for each in (job, fuse(job, tuple(each["name"] for each in middle)))
    )
    assert as_one <= apart * (1 + 1e-6)


# every operator counts its own ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", [COUNT, TIME], ids=["count", "time"])
@pytest.mark.parametrize("fidelity", BOTH)
def test_what_one_hands_over_the_next_has_taken(fidelity: str, window: dict[str, Any]) -> None:
    middle = [map_("m", 1e-4, selectivity=2.0), filter_("f", 1e-4, 0.5), counting("a", 1e-4, window, 5)]
    job = chain([*middle, filter_("g", 1e-3, 0.5)], 200)
    found = totals(run(fuse(job, ("source", "m", "f", "a", "g", "sink")), fidelity))
    for first, second in (("source", "m"), ("m", "f"), ("f", "a"), ("a", "g")):
        assert found[first][1] == found[second][0] > 100
    assert found["m"][1] == pytest.approx(2 * found["m"][0], rel=0.01)
    assert found["f"][1] == pytest.approx(found["f"][0] / 2, rel=0.06)
    assert found["g"][1] == pytest.approx(found["sink"][0], abs=10)
    fires = found["a"][0] / 10 if window is COUNT else 16.0 / 0.5
    assert found["a"][1] == pytest.approx(5 * fires, rel=0.05)


@pytest.mark.parametrize("groups", [(("m", "a", "g"),), (("a", "g", "sink"),), (("source", "m"), ("g", "sink"))])
@pytest.mark.parametrize("window", [COUNT, TIME], ids=["count", "time"])
def test_fast_agrees_with_exact(window: dict[str, Any], groups: tuple[tuple[str, ...], ...]) -> None:
    middle = [map_("m", 1e-3), counting("a", 1e-3, window, 8), filter_("g", 5e-4, 0.5)]
    job = fuse(chain(middle, 200), *groups)
    exact, fast = (run(job, fidelity, 60.0).metrics for fidelity in BOTH)
    assert fast.throughput_per_s == pytest.approx(exact.throughput_per_s, rel=0.08)
    assert fast.e2e_latency_s.mean == pytest.approx(exact.e2e_latency_s.mean, rel=0.06)


def test_two_windows_over_time_in_a_row() -> None:
    """The second holds what the first has emitted, one result each half second: 4 of them in 2 s."""
    job = chain([counting("a", 1e-4, TIME), counting("b", 0.0, {"policy": "time", "size_s": 2, "slide_s": 2})], 200)
    for fidelity in BOTH:
        apart, as_one = (totals(run(each, fidelity)) for each in (job, fuse(job, ("a", "b"))))
        assert as_one["a"][1] == as_one["b"][0] == pytest.approx(apart["b"][0], abs=1) and as_one["b"][0] >= 31
        assert as_one["b"][1] == pytest.approx(apart["b"][1], abs=1)


def test_fused_replicas_overloaded_are_one_core_each() -> None:
    """2 ms and 3 ms of work a tuple: 200 a second each, where apart the slower alone would be the limit."""
    job = chain([map_("a", 2e-3), map_("b", 3e-3)], 1000, placement={"a": ["h", "h"], "b": ["h", "h"]})
    job = fuse(job, ("a", "b"))
    for fidelity in BOTH:
        result = run(job, fidelity, 30.0, noise=False)
        assert result.metrics.throughput_per_s == pytest.approx(400, rel=0.02)
        assert result.metrics.backpressured


def test_an_overloaded_window_works_on_one_core_at_most() -> None:
    """Matches that take 2 ms each in what follows: evaluations alone would take more than the time between them."""
    join = {"kind": "join", "name": "j", "window": TIME, "selectivity": 0.02, "service_time_s": 1e-3}
    operators = [source("s"), source("t"), join, map_("n", 1e-3), filter_("o", 1e-3, 0.5), sink()]
    streams = [("s", "j"), ("t", "j"), ("j", "n"), ("n", "o"), ("o", "sink")]
    job = fuse(deployment(operators, streams, {"s": 100, "t": 60}), ("j", "n", "o"))
    exact, fast = (run(job, fidelity, 60.0, period_s=5.0, warmup_s=20.0) for fidelity in BOTH)
    for result in (exact, fast):
        assert result.hosts[0].cpu * 16 == pytest.approx(1.0, abs=0.08)
    assert fast.metrics.throughput_per_s == pytest.approx(exact.metrics.throughput_per_s, rel=0.15)


# while it changes -----------------------------------------------------------------------------------------------------

GROUPS = [("source", "m"), ("m", "a"), ("a", "g", "sink"), ("source", "m", "a", "g", "sink")]
DOWN = Failure(at_s=8.5, host="h1", recover_after_s=3)


def changing(group: tuple[str, ...], window: dict[str, Any], replicas: int = 1) -> Deployment:
    """Fused operators are on h1, all others on h0."""
    middle = [map_("m", 2e-4), counting("a", 1e-4, window, 20), map_("g", 1e-4)]
    names = ["source", "m", "a", "g", "sink"]
    placement = {name: ["h1"] * replicas if name in group else ["h0"] for name in names}
    streams = [("source", "m"), ("m", "a"), ("a", "g"), ("g", "sink")]
    job = deployment([source(), *middle, sink()], streams, {"source": 400}, hosts=HOSTS, placement=placement)
    forward = [each.model_copy(update={"partitioning": "forward" if each.consumer in group[1:] else None})
               for each in job.query.streams]  # fmt: skip
    query = type(job.query)(operators=job.query.operators, streams=tuple(forward))
    return Deployment(
        **{**dict(job), "query": query, "plan": ExecutionPlan(placement=job.plan.placement, fused=(group,))}
    )


@pytest.mark.parametrize("window", [COUNT, TIME], ids=["count", "time"])
@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("fidelity", BOTH)
def test_a_failure_loses_and_repeats_as_much_as_apart(fidelity: str, group: tuple[str, ...], window: Any) -> None:
    """That nothing is lost or made is checked in each run; here, that results are those of the job that runs apart."""
    job = changing(group, window)
    as_one, apart = (
        run_changing(each, DOWN, fidelity=fidelity, horizon_s=16, checkpoint_interval_s=3)
        for each in (job, job.with_plan(job.plan.model_copy(update={"fused": ()})))
    )
    assert as_one.event_rows[0]["end_s"] == 11.5
    made = as_one.metrics.tuples_out - as_one.duplicates
    assert made == pytest.approx(apart.metrics.tuples_out - apart.duplicates, rel=0.03)


def test_windows_that_are_fused_move_with_what_they_hold() -> None:
    job = changing(("a", "g", "sink"), TIME)
    for event in (
        Migration(at_s=8.2, operator="a", replica=0, to="h3"),
        Scale(at_s=8.2, operator="a", placement=("h1", "h3")),
    ):
        result = run_changing(job, event, fidelity="exact")
        assert "refused" not in result.event_rows[0]["detail"] and result.event_rows[0]["bytes"] > 1000
        assert min(column(result, "a", "numRecordsOut")[3:]) >= 36  # 20 groups, twice a second


def test_a_replica_that_comes_later_is_a_chain_as_well() -> None:
    job = changing(("m", "a"), COUNT, replicas=2)
    result = run_changing(job, Scale(at_s=5, operator="m", placement=("h1", "h1", "h2")), fidelity="fast")
    replicas = {name: column(result, name, "replicas")[-1] for name in ("m", "a", "g")}
    assert replicas == {"m": 3, "a": 3, "g": 1}


# what is allowed ------------------------------------------------------------------------------------------------------

PLACED = {"placement": {"m": ["h", "h"], "f": ["h", "h"]}}


@pytest.mark.parametrize(
    ("group", "more", "says"),
    [
        (("m", "x"), {}, "plan.fused.0 names unknown operator 'x'; one of source, m, f, sink"),
        (("m",), {}, "at least 2 items"),
        (("m", "sink"), {}, "no stream from 'm' to 'sink'; fuse operators in data-flow order"),
        (("f", "m"), {}, "no stream from 'f' to 'm'"),
        (("m", "f"), {"placement": {"m": ["h", "h"]}}, "not at the same places"),
        (("m", "f"), {"how": "hash", **PLACED}, "use forward, or one replica"),
        (("m", "f"), {"drop": True}, "drops what finds no room"),
    ],
)
def test_what_cannot_be_fused_says_why(group: tuple[str, ...], more: dict[str, Any], says: str) -> None:
    job = chain([map_("m", 1e-3), map_("f", 1e-3)], 100, placement=more.get("placement"))
    changed = {"partitioning": more.get("how"), "overflow": "drop" if more.get("drop") else "block"}
    streams = tuple(each.model_copy(update=changed) if each.consumer == "f" else each for each in job.query.streams)
    job = Deployment(**{**dict(job), "query": type(job.query)(operators=job.query.operators, streams=streams)})
    with pytest.raises((BadInput, ValueError), match=says):
        job.with_plan(ExecutionPlan(placement=job.plan.placement, fused=(group,)))


def test_what_two_take_or_send_runs_apart() -> None:
    join = {"kind": "join", "name": "j", "window": TIME, "selectivity": 0.01}
    operators = [source("s"), source("t"), map_("m", 1e-3), join, map_("n", 1e-3), sink(), sink("other")]
    streams = [("s", "m"), ("m", "j"), ("t", "j"), ("j", "n"), ("n", "sink"), ("n", "other")]
    job = deployment(operators, streams, {"s": 50, "t": 50})
    assert run(fuse(job, ("s", "m"), ("j", "n")), "fast").metrics.throughput_per_s > 10
    for group, says in ((("m", "j"), "'j' takes from 'm' and 't'"), (("n", "sink"), "'n' sends to 'other' and 'sink'")):
        with pytest.raises(BadInput, match=says):
            fuse(job, group)
    with pytest.raises(BadInput, match=r"'n' is in plan\.fused\.0 already"):
        fuse(job, ("j", "n"), ("n", "sink"))


def test_key_groups_are_dealt_to_the_first_alone() -> None:
    keyed = counting("a", 1e-4, TIME, 20, key_groups=8)
    job = chain([map_("m", 1e-4), keyed, map_("g", 1e-4)], 100)
    assert run(fuse(job, ("a", "g")), "fast").metrics.throughput_per_s == pytest.approx(40, rel=0.05)
    with pytest.raises(BadInput, match="key_groups, which are dealt on a stream"):
        fuse(job, ("m", "a"))


def test_what_leads_to_event_time_runs_apart() -> None:
    job = event_jobs.job(placement=dict.fromkeys(("source", "compute", "merge", "sink"), "h0"))
    for group, name in ((("source", "compute"), "source"), (("merge", "sink"), "merge")):
        with pytest.raises(BadInput, match=f"{name!r} works in event time, or leads to what does"):
            job.with_plan(job.plan.model_copy(update={"fused": (group,)}))
    chaining = job.engine.model_copy(update={"chaining": True})
    assert fused(job.query, job.plan, chaining) == ()


def test_an_event_names_the_first() -> None:
    job = changing(("a", "g"), TIME)
    events: list[AnyEvent] = [
        Migration(at_s=1, operator="g", replica=0, to="h3"),
        Scale(at_s=1, operator="g", placement=("h3",)),
    ]
    for event in events:
        with pytest.raises(BadInput, match="'g' runs as one with 'a' and goes where that goes; name 'a'"):
            Scenario.of(job, RunSettings(), (event,))


def test_sockets_with_limits_refuse() -> None:
    sockets = [{"cores": 4, "bandwidth_gbps": 10}]
    job = fuse(chain([map_("m", 1e-3)], 100, hosts=[{**HOST, "cpu_percent": 400, "sockets": sockets}]), ("m", "sink"))
    with pytest.raises(BadInput, match=r"operators that run as one \(m \+ sink\)"):
        run(job, "fast")


# plans, engines and models --------------------------------------------------------------------------------------------


def test_an_engine_that_chains_does_so_where_tuples_go_straight_on() -> None:
    middle = [map_("m", 1e-4), filter_("f", 1e-4, 0.5), counting("a", 1e-4, TIME, 20), map_("g", 1e-4)]
    placement = {"source": ["h"] * 2, "m": ["h"] * 2, "f": ["h"] * 2, "a": ["h"] * 2, "g": ["h"] * 2}
    job = chain(middle, 100, placement=placement)
    chaining = job.model_copy(update={"engine": job.engine.model_copy(update={"chaining": True})})
    assert fused(job.query, job.plan, job.engine) == ()
    assert fused(chaining.query, chaining.plan, chaining.engine) == (("a", "g"), ("source", "m", "f"))
    assert together("f", chaining) == ("source", "m", "f") and together("sink", chaining) == ("sink",)
    assert [len(each.stages) for each in compiled(chaining).components] == [3, 2, 1]
    assert run(chaining, "fast").metrics.throughput_per_s == pytest.approx(40, rel=0.05)
    more = chaining.with_plan(ExecutionPlan(placement=placement | {"sink": ("h",)}, fused=(("source", "m"),)))
    assert fused(more.query, more.plan, more.engine) == (("a", "g"), ("source", "m", "f"))


def test_a_plan_made_of_another_keeps_what_it_can() -> None:
    job = fuse(chain([map_("m", 1e-3), map_("f", 1e-3), map_("g", 1e-3)], 100), ("source", "m"), ("f", "g"))
    moved = job.plan.with_placement({**job.plan.placement, "g": ("elsewhere",)})
    assert moved.fused == (("source", "m"),)
    assert job.plan.parted_by(moved) == ("f", "g") and job.plan.parted_by(job.plan) == ()


def test_plans_without_fusion_are_written_as_ever() -> None:
    job = chain([map_("m", 1e-3)], 100)
    assert "fused" not in job.plan.model_dump() and "chaining" not in job.engine.model_dump()
    again = ExecutionPlan.model_validate(fuse(job, ("m", "sink")).plan.model_dump(mode="json"))
    assert again.fused == (("m", "sink"),)


@pytest.mark.parametrize("placement", [{}, {"a": ["h", "h", "k"]}], ids=["one", "replicas"])
def test_the_rate_model_sees_one_operator_that_takes_as_long(placement: dict[str, list[str]]) -> None:
    """Services vary independently, so do their sums."""
    hosts = [{**HOST, "cpu_percent": 150}, {**HOST, "name": "k", "cpu_percent": 400}]
    both = {**placement, **({"b": placement["a"]} if placement else {})}
    rate = 120 * len(placement.get("a", "h"))
    two = fuse(chain([map_("a", 2e-3), map_("b", 3e-3)], rate, hosts=hosts, placement=both), ("a", "b"))
    one = chain([map_("a", 5e-3, service_scv=0.5 * (4 + 9) / 25)], rate, hosts=hosts, placement=placement)
    found, expected = (RateModel(20.0).answer(job, [job.plan]) for job in (two, one))
    for metric, values in expected.costs.by_metric.items():
        assert found.costs[metric] == pytest.approx(values, rel=2e-5), metric
    assert found.cpu == pytest.approx(expected.cpu) and found.pressure[:, 1] == pytest.approx(expected.pressure[:, 1])
    assert found.pressure[:, 1] == pytest.approx(found.pressure[:, 2])


@pytest.mark.parametrize(
    ("middle", "group", "rate"),
    [
        ([map_("a", 2e-3), map_("b", 2e-3)], ("a", "b"), 200),
        ([filter_("a", 2e-3, 0.5), map_("b", 4e-3)], ("a", "b"), 150),
        ([map_("a", 1e-3), counting("b", 1e-3, COUNT, 20), filter_("g", 1e-3, 0.5)], ("a", "b", "g"), 200),
        ([map_("a", 1e-3), counting("b", 1e-3, TIME, 20), filter_("g", 1e-3, 0.5)], ("b", "g", "sink"), 200),
        ([map_("a", 3e-3), map_("b", 3e-3)], ("source", "a", "b"), 250),
    ],
)
def test_the_rate_model_agrees_with_exact_runs(middle: list[dict[str, Any]], group: tuple[str, ...], rate: int) -> None:
    job = Scenario.of(fuse(chain(middle, rate), group), RunSettings(fidelity="exact", horizon_s=60, warmup_s=10))
    exact, found = simulate(job).metrics, RateModel().predict(job, [job.plan])
    assert found["throughput_per_s"][0] == pytest.approx(exact.throughput_per_s, rel=0.05)
    assert found["e2e_latency_s"][0] == pytest.approx(exact.e2e_latency_s.mean, rel=0.15)
    assert (found["backpressured"][0] > 0.5) == exact.backpressured == (rate == 250)


def test_plans_are_estimated_together_however_they_fuse() -> None:
    """As plans, and as counts of replicas, of which those stay fused that sit alike."""
    hosts = [{**HOST, "name": name, "cpu_percent": 200} for name in ("h", "k")]
    job = fuse(chain([map_("a", 2e-3), map_("b", 2e-3)], 150, hosts=hosts), ("a", "b"))
    places = [dict(zip(("source", "a", "b", "sink"), each, strict=True)) for each in product("hk", repeat=4)]
    plans = [job.plan.with_placement({name: (host,) for name, host in each.items()}) for each in places]
    assert sum(not plan.fused for plan in plans) == 8
    together_ = RateModel(60.0).predict(job, plans)
    alone = [RateModel(60.0).predict(job, [plan]) for plan in plans]
    order = [operator.name for operator in job.query.topological]
    counts = np.array([[[each[name] == host for host in "hk"] for name in order] for each in places], dtype=float)
    counted = RateModel(60.0).answer_counts(job, counts).costs
    for metric, values in together_.by_metric.items():
        assert values == pytest.approx([each[metric][0] for each in alone], rel=1e-9)
        assert values == pytest.approx(counted[metric], rel=1e-9)
    apart = RateModel(60.0).predict(job, [plan.model_copy(update={"fused": ()}) for plan in plans])
    differs = together_["e2e_latency_s"] != apart["e2e_latency_s"]
    assert [bool(plan.fused) for plan in plans] == differs.tolist()


def test_who_does_not_see_it_says_so() -> None:
    job = fuse(chain([map_("m", 1e-3), map_("f", 1e-3)], 100), ("m", "f"))
    assert unseen_of(Scenario.of(job, RunSettings()), ()) == ("operators that run as one (m + f)",)
    assert unseen_of(Scenario.of(job, RunSettings()), ("fusion",)) == ()


def test_compiled_apart_is_the_job_without_fusion() -> None:
    job = chain([map_("m", 1e-3), map_("f", 1e-3)], 100)
    one = compiled(fuse(job, ("m", "f")))
    assert [each.name for each in one.components] == ["source", "m", "sink"]
    assert [each.ends for each in one.edges] == [("f", "sink"), ("source", "m")]
    assert [each.name for each in one.apart.components] == [each.name for each in compiled(job).components]
    assert one.component("f").name == "m" and one.apart.component("f").name == "f"
    assert compiled(job).apart.rates == compiled(job).rates == one.rates
    assert one.service_s(one.component("m")) == pytest.approx(2e-3)
    wired = Wiring(one, RunSettings())
    wired.build()
    assert isinstance(wired.tasks_of("f")[0].logic, Chain) and wired.tasks_of("f") is wired.tasks_of("m")
