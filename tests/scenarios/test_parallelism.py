"""Operators that say their parallelism are placed by the engine's scheduler; the others stay where the file says."""

from __future__ import annotations

from collections import Counter

import pytest
import yaml

from scenarios.files import scenario_file
from scenarios.files.scenario_file import set_value
from scenarios.questions.knobs import knob, whole
from twin.errors import BadInput
from twin.scenario import Scenario

FILE = """
query:
  operators:
    - {name: in, kind: source, service_time_s: 0}
    - {name: work, kind: map, service_time_s: 1ms, parallelism: 4}
    - {name: out, kind: sink, service_time_s: 0}
  streams:
    - {producer: in, consumer: work}
    - {producer: work, consumer: out}
cluster:
  hosts:
    - &tm {name: tm-1, cpu_percent: 200, ram_mb: 8000, bandwidth_mbps: 1000, latency_ms: 1}
    - {<<: *tm, name: tm-2}
workload: {arrivals: {in: {law: poisson, rate_per_s: 1000}}}
engine: flink
"""


def read(*changes: tuple[str, str]) -> Scenario:
    text = FILE
    for old, new in changes:
        assert text.count(old) == 1
        text = text.replace(old, new)
    return scenario_file.parse_scenario(text, "job")


def test_a_job_takes_as_many_slots_as_its_highest_parallelism_spread_evenly():
    """In and out share the first slot with work; the sink's second subtask is in the second slot."""
    placement = read(("kind: sink", "kind: sink, parallelism: 2")).plan.placement
    assert placement == {"in": ("tm-1",), "work": ("tm-1", "tm-2", "tm-1", "tm-2"), "out": ("tm-1", "tm-2")}


def test_without_slots_the_first_subtasks_spread_too():
    """In is on tm-1, work on tm-2, out on tm-1; then work makes the hosts equal: tm-2, then both in turn."""
    placement = read(("engine: flink", "engine: storm")).plan.placement
    assert placement == {"in": ("tm-1",), "work": ("tm-2", "tm-2", "tm-1", "tm-2"), "out": ("tm-1",)}


def test_operators_with_places_keep_them_and_forward_streams_and_chains_stay_together():
    forward = ("{producer: in, consumer: work}", "{producer: in, consumer: work, partitioning: forward}")
    source = ("kind: source", "kind: source, parallelism: 4")
    plan = ("engine: flink", "engine: flink\nplan: {placement: {out: tm-2}, fused: [[in, work]]}")
    for engine in ("flink", "storm"):
        job = read(forward, source, (plan[0], plan[1].replace("flink", engine)))
        assert job.plan.fused == (("in", "work"),) and job.plan.placement["out"] == ("tm-2",)
        assert job.plan.placement["in"] == job.plan.placement["work"]
        assert Counter(job.plan.placement["in"]) in ({"tm-1": 2, "tm-2": 2}, {"tm-1": 3, "tm-2": 1})
    assert read(forward).plan.placement["in"] == read(forward, source).plan.placement["in"]
    for wrong in (
        ("kind: source", "kind: source, parallelism: 3"),
        (plan[0], "engine: flink\nplan: {placement: {in: tm-1}}"),
    ):
        with pytest.raises(
            BadInput, match=r"job: in has [13] subtasks, and by a forward stream or a chain 4; give both"
        ):
            read(forward, wrong)


def test_a_job_without_a_plan_has_one_subtask_of_each_operator():
    """In one slot, or on the emptiest hosts."""
    bare = (", parallelism: 4", "")
    assert read(bare).plan.placement == dict.fromkeys(("in", "work", "out"), ("tm-1",))
    placement = read(bare, ("engine: flink", "engine: storm\nplan: {fused: [[in, work]]}")).plan.placement
    assert placement == {"in": ("tm-1",), "work": ("tm-1",), "out": ("tm-2",)}


def test_a_parallelism_is_set_as_if_the_file_said_so():
    for text, count in ((", parallelism: 4", 4), (", parallelism: 2", 2), ("", 3)):
        job = read((", parallelism: 4", text))
        assert set_value(job, f"query.operators.work.parallelism={count}") == read(
            (", parallelism: 4", f", parallelism: {count}")
        )
    tied = read(("{producer: in, consumer: work}", "{producer: in, consumer: work, partitioning: forward}"))
    placement = tied.with_set("query.operators.in.parallelism", 2).plan.placement
    assert placement["in"] == placement["work"] and {*placement["in"]} == {"tm-1", "tm-2"}


def test_a_parallelism_can_be_varied_and_another_one_breaks_a_chain():
    job = read(
        (", parallelism: 4", ""), ("service_time_s: 0}\n  streams", "service_time_s: 1us, parallelism: 2}\n  streams")
    )
    turn = knob("query.operators.work.parallelism", "--vary")
    assert turn.given(job) == 1 and whole(turn, job)
    more = turn.turned(job, 4)
    assert [more.plan.parallelism(name) for name in ("in", "work", "out")] == [1, 4, 2]
    with pytest.raises(BadInput, match=r"--vary query.operators.work.parallelism: 2\.5; give a whole number"):
        turn.turned(job, 2.5)


def test_what_is_written_has_places():
    text = scenario_file.dump(read())
    assert "parallelism" not in text
    assert yaml.safe_load(text)["plan"]["placement"]["work"] == ["tm-1", "tm-2", "tm-1", "tm-2"]
    assert scenario_file.parse_scenario(text, "job") == read()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("parallelism: 4", "parallelism: 0"), "job: query.operators.work.parallelism: 0; give a whole number from 1"),
        (("parallelism: 4", "parallelism: many"), "parallelism: 'many'; give a whole number"),
        (("parallelism: 4", "parallelism: yes"), "parallelism: 'yes'; give a whole number"),
        (
            ("engine: flink", "engine: flink\nplan: {placement: {in: tm-1, work: tm-1, out: tm-1}}"),
            "query.operators.work.parallelism: plan.placement.work says how many and where; leave one of the two out",
        ),
        (("engine: flink", "engine: flink\nplan:"), "job: line 16: plan: should be a mapping"),
        (
            ("parallelism: 4", "parallelism: 400001"),
            "job: query.operators: 400,001 subtasks, of 400,000 at most in a plan",
        ),
        (("- &tm {name: tm-1", "- &tm {nme: tm-1"), "line 12: cluster.hosts.0.nme: unknown key 'nme'"),
        (
            ("service_time_s: 1ms", "service_tme_s: 1ms"),
            "line 5: query.operators.work.service_tme_s: unknown key 'service_tme_s'",
        ),
    ],
)
def test_mistakes_are_told_with_their_place(change: tuple[str, str], says: str):
    with pytest.raises(BadInput) as error:
        read(change)
    assert says in str(error.value)


def test_an_operator_that_has_no_place_where_others_have_is_told_of_both_ways():
    plan = ("engine: flink", "engine: flink\nplan: {placement: {in: tm-1, out: tm-1}}")
    with pytest.raises(BadInput, match="for operator 'work'; add 'work: HOST', or give it a parallelism in query"):
        read((", parallelism: 4", ""), plan)
