"""Fused operators: what is allowed, and plans, engines and models that know of it."""

from __future__ import annotations

from itertools import product
from typing import Any, get_type_hints

import numpy as np
import pytest

from tests.twin import event_jobs
from tests.twin.fused_jobs import COUNT, TIME, counting, filter_, fuse, map_, run
from tests.twin.worlds import HOST, chain, deployment, sink, source
from twin.chaining import fused
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.job import compile as compiled
from twin.kinds import mechanism
from twin.kinds.registry import BY_KIND
from twin.plan import ExecutionPlan
from twin.rates.arrays import JobArrays
from twin.rates.chaining import of_counts
from twin.rates.model import RateModel
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate
from twin.spec import parse
from twin.unsupported import unsupported_features

# what is allowed ------------------------------------------------------------------------------------------------------

PLACED = {"placement": {"m": ["h", "h"], "f": ["h", "h"]}}


def test_kinds_that_send_by_themselves_run_alone() -> None:
    """What they send goes to no operator behind them in a chain."""
    alone = mechanism.Routing, mechanism.Sessioning, mechanism.Asking, mechanism.Writing
    found = [kind for kind in BY_KIND.values() if get_type_hints(kind.mechanism.fget)["return"] in alone]
    assert len(found) == 5 and all(kind.runs_alone for kind in found)


@pytest.mark.parametrize(
    ("group", "more", "says"),
    [
        (("m", "x"), {}, "plan.fused.0 names unknown operator 'x'; one of source, m, f, sink"),
        (("m",), {}, "at least 2 items"),
        (("m", "sink"), {}, "no stream from 'm' to 'sink'; fuse operators in data-flow order"),
        (("f", "m"), {}, "no stream from 'f' to 'm'"),
        (("m", "f"), {"placement": {"m": ["h", "h"]}}, "not at the same places"),
        (("m", "f"), {"how": "hash", **PLACED}, "use forward, or one subtask"),
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


def test_what_takes_from_two_can_only_be_the_first() -> None:
    join = {"kind": "join", "name": "j", "window": TIME, "selectivity": 0.01}
    operators = [source("s"), source("t"), map_("m", 1e-3), join, map_("n", 1e-3), sink(), sink("other")]
    streams = [("s", "m"), ("m", "j"), ("t", "j"), ("j", "n"), ("n", "sink"), ("n", "other")]
    job = deployment(operators, streams, {"s": 50, "t": 50})
    assert run(fuse(job, ("s", "m"), ("j", "n"))).metrics.throughput_per_s > 10
    assert compiled(fuse(job, ("n", "sink"))).component("sink").name == "n"
    with pytest.raises(BadInput, match="'j' takes from 'm' and 't'"):
        fuse(job, ("m", "j"))
    with pytest.raises(BadInput, match=r"'n' is in plan\.fused\.0 already"):
        fuse(job, ("j", "n"), ("n", "sink"))


KEYED = {"partition_by": ["user"]}


@pytest.mark.parametrize(
    ("first", "between", "second", "says"),
    [
        (KEYED, {"passes": ["user"]}, KEYED, ""),
        ({"partition_by": ["user", "page"]}, {"passes": ["user", "page"]}, {"partition_by": ["page"]}, ""),
        ({}, {"passes": ["user"]}, KEYED, "or name the keys that both have in partition_by"),
        (KEYED, {}, KEYED, "hash deals the records of each of the 2 subtasks of 'm' to all of 'w'"),
        (KEYED, {"passes": ["user"]}, {"partition_by": ["page"]}, "hash deals the records"),
    ],
)
def test_hash_streams_lie_within_a_task_where_keys_are_the_same(
    first: dict[str, Any], between: dict[str, Any], second: dict[str, Any], says: str
) -> None:
    middle = [
        counting("v", 1e-4, TIME, 20, **first),
        map_("m", 1e-4, **between),
        counting("w", 1e-4, TIME, 8, **second),
    ]
    job = chain(middle, 100, placement={name: ["h", "h"] for name in ("v", "m", "w")})
    if says:
        with pytest.raises(BadInput, match=says):
            fuse(job, ("v", "m", "w"))
        return
    found = fuse(job, ("v", "m", "w"))
    rates = RateModel(60.0).predict(found, [found.plan])
    result = run(found, 60.0)
    assert result.metrics.throughput_per_s == pytest.approx(16, rel=0.05)
    assert rates["e2e_latency_s"][0] == pytest.approx(result.metrics.e2e_latency_s.mean, rel=0.1)


@pytest.mark.parametrize(
    ("keys", "more", "says"),
    [
        ([], {}, "partition_by \\[\\], so it cannot be split, and 2 subtasks; give it one, or name the attributes"),
        (["user", "user"], {}, "attribute 'user' is named 2 times"),
        (["user"], {"partitioning": "rebalance"}, "source -> w is dealt by rebalance; use hash"),
        (["a b"], {}, "letters, digits"),
    ],
)
def test_keys_by_which_nothing_can_be_dealt_are_refused(keys: list[str], more: dict[str, Any], says: str) -> None:
    document = chain([counting("w", 1e-4, TIME, 20)], 10, placement={"w": ["h", "h"]}).model_dump(mode="json")
    document["query"]["operators"][1]["partition_by"] = keys
    document["query"]["streams"][0] |= more
    with pytest.raises(BadInput, match=says):
        parse(Deployment, document)


def test_key_groups_are_dealt_to_the_first_alone() -> None:
    keyed = counting("a", 1e-4, TIME, 20, key_groups=8)
    job = chain([map_("m", 1e-4), keyed, map_("g", 1e-4)], 100)
    assert run(fuse(job, ("a", "g"))).metrics.throughput_per_s == pytest.approx(40, rel=0.05)
    with pytest.raises(BadInput, match="by key, which are dealt on a stream"):
        fuse(job, ("m", "a"))


def test_an_engine_chains_a_sink_to_windows_over_event_time_and_nothing_to_what_is_dealt_by_key() -> None:
    job = event_jobs.job(placement=dict.fromkeys(("source", "compute", "merge", "sink"), "h0"))
    chaining = job.engine.model_copy(update={"chaining": True})
    assert fused(job.query, job.plan, chaining) == (("merge", "sink"),)


def test_sockets_with_limits_refuse() -> None:
    sockets = [{"cores": 4, "bandwidth_gbps": 10}]
    job = fuse(chain([map_("m", 1e-3)], 100, hosts=[{**HOST, "cpu_percent": 400, "sockets": sockets}]), ("m", "sink"))
    with pytest.raises(BadInput, match=r"operators that run as one \(m \+ sink\)"):
        run(job)


# plans, engines and models --------------------------------------------------------------------------------------------


def test_an_engine_that_chains_does_so_where_records_go_straight_on() -> None:
    middle = [map_("m", 1e-4), filter_("f", 1e-4, 0.5), counting("a", 1e-4, TIME, 20), map_("g", 1e-4)]
    placement = {"source": ["h"] * 2, "m": ["h"] * 2, "f": ["h"] * 2, "a": ["h"] * 2, "g": ["h"] * 2}
    job = chain(middle, 100, placement=placement)
    chaining = job.model_copy(update={"engine": job.engine.model_copy(update={"chaining": True})})
    assert fused(job.query, job.plan, job.engine) == ()
    assert fused(chaining.query, chaining.plan, chaining.engine) == (("a", "g"), ("source", "m", "f"))
    assert [len(each.stages) for each in compiled(chaining).components] == [3, 2, 1]
    assert run(chaining).metrics.throughput_per_s == pytest.approx(40, rel=0.05)
    more = chaining.with_plan(ExecutionPlan(placement=placement | {"sink": ("h",)}, fused=(("source", "m"),)))
    assert fused(more.query, more.plan, more.engine) == (("a", "g"), ("source", "m", "f"))


@pytest.mark.parametrize("subtasks", [1, 2])
@pytest.mark.parametrize(("said", "chained"), [(None, True), ("forward", True), ("rebalance", False), ("local", False)])
def test_only_what_is_forwarded_is_chained_by_an_engine(said: str | None, chained: bool, subtasks: int) -> None:
    """Whatever is said between source and map, these are at the same places. The rate model chains alike, and a plan
    may chain them all the same."""
    places = {name: ["h"] * subtasks for name in ("source", "m", "sink")}
    dealt = {} if said is None else {"m": said}
    job = chain([map_("m", 1e-4)], 100, placement=places, partitioning={"sink": "global", **dealt})
    chaining = job.model_copy(update={"engine": job.engine.model_copy(update={"chaining": True})})
    found = fused(chaining.query, chaining.plan, chaining.engine)
    assert found == ((("source", "m"),) if chained else ())
    rates = of_counts(JobArrays(compiled(chaining)), np.full((1, 3, 1), subtasks))
    assert (rates is not None) == chained
    fuse(chaining, ("source", "m"))


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


@pytest.mark.parametrize("placement", [{}, {"a": ["h", "h", "k"]}], ids=["one", "parallelism"])
def test_the_rate_model_sees_one_operator_that_takes_as_long(placement: dict[str, list[str]]) -> None:
    """The rate model sees fused operators as one with the sum of their independent services."""
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
    job = Scenario.of(fuse(chain(middle, rate), group), RunSettings(horizon_s=60, warmup_s=10))
    exact, found = simulate(job).metrics, RateModel().predict(job, [job.plan])
    assert found["throughput_per_s"][0] == pytest.approx(exact.throughput_per_s, rel=0.05)
    assert found["e2e_latency_s"][0] == pytest.approx(exact.e2e_latency_s.mean, rel=0.15)
    assert (found["backpressured"][0] > 0.5) == exact.backpressured == (rate == 250)


def test_results_of_a_window_leave_when_its_chain_is_done_with_all_of_them() -> None:
    """Results of a window leave when its chain is done with all of them: 100 of 2 ms after the map, and 100 of 1 ms."""
    every = {"policy": "time", "size_s": 4, "slide_s": 1}
    job = fuse(chain([counting("b", 0.0, every, 100), map_("m", 2e-3), map_("n", 1e-3)], 400), ("b", "m", "n"))
    plain = fuse(chain([counting("b", 0.0, every, 100), map_("m", 0.0), map_("n", 0.0)], 400), ("b", "m", "n"))
    found, without, exact = (
        age(Scenario.of(each, RunSettings(horizon_s=60, warmup_s=10)))
        for each, age in (
            (job, _predicted_s),
            (plain, _predicted_s),
            (job, lambda each: simulate(each).metrics.processing_latency_s.mean),
        )
    )
    assert found - without == pytest.approx(0.3, abs=0.01)
    assert found == pytest.approx(exact, rel=0.01)


def _predicted_s(job: Scenario) -> float:
    return float(RateModel().predict(job, [job.plan])["processing_latency_s"][0])


@pytest.mark.parametrize("producers", [1, 4])
def test_subtasks_that_get_records_in_turn_wait_less(producers: int) -> None:
    """Four fused subtasks at 85 % load wait less than for random arrivals (21 ms), as gaps are sums of four."""
    places = {"source": ["h"] * producers, "a": ["h"] * 4, "b": ["h"] * 4}
    job = fuse(chain([map_("a", 2e-3), map_("b", 3e-3)], 680, placement=places), ("a", "b"))
    exact = run(job, 20.0, warmup_s=4.0).metrics.e2e_latency_s.mean
    assert RateModel(20.0).predict(job, [job.plan])["e2e_latency_s"][0] == pytest.approx(exact, rel=0.15)
    assert exact < 14e-3


def test_plans_are_estimated_together_however_they_fuse() -> None:
    """Plans are estimated together, also as counts of subtasks, where equally placed operators stay fused."""
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
    assert unsupported_features(Scenario.of(job, RunSettings()), ()) == ("chained operators (m + f)",)
    assert unsupported_features(Scenario.of(job, RunSettings()), ("fusion",)) == ()


# behind rows of SQL ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [{"mini_batch_s": 0.5}, {"mini_batch_s": 0.5, "mini_batch_size": 50}])
def test_batches_are_sent_by_a_timer_and_so_run_alone(more: dict[str, Any]) -> None:
    """Nobody in their task would get what leaves when a batch ends."""
    rows = {"kind": "group-aggregate", "name": "rows", "keys": 60, "service_time_s": 1e-4, **more}
    job = chain([rows, filter_("f", 1e-4, 0.5)], 200, engine={"profile": "flink"})
    with pytest.raises(BadInput, match="'rows' is a task by itself"):
        fuse(job, ("rows", "f"))


OF_ROWS: dict[str, dict[str, Any]] = {
    "deduplicate": {"keep": "last"},
    "group-aggregate": {},
    "top-n": {"n": 3},
    "over-aggregate": {"rows": 3},
}


@pytest.mark.parametrize("kind", OF_ROWS)
def test_rows_of_sql_are_followed_but_follow_nobody(kind: str) -> None:
    """Filters and sinks get the same results in the task of rows as behind it, without the wait for a buffer."""
    rows = {"kind": kind, "name": "rows", "keys": 60, "service_time_s": 1e-4} | OF_ROWS[kind]
    job = chain([rows, filter_("f", 1e-4, 0.5)], 200, engine={"profile": "flink"})
    together = fuse(job, ("rows", "f", "sink"))
    apart, one = (run(each, 20.0) for each in (job, together))
    counts = [
        {row["operator"]: row["numRecordsIn"] for row in found.operator_rows if row["start_s"] == 0.0}
        for found in (apart, one)
    ]
    assert counts[0]["rows"] == counts[1]["rows"] > 0
    assert one.metrics.records_out == pytest.approx(apart.metrics.records_out, rel=0.1)
    assert apart.metrics.processing_latency_s.mean > one.metrics.processing_latency_s.mean + 0.02
    for each, found in ((job, apart), (together, one)):
        said = RateModel(20.0).predict(each, [each.plan])["processing_latency_s"][0]
        assert said == pytest.approx(found.metrics.processing_latency_s.mean, rel=0.25)
    with pytest.raises(BadInput, match=r"'rows'.* can only be the first"):
        fuse(job, ("source", "rows"))
