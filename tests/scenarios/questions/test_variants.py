"""Variants of a scenario by a question: ranges, knobs, plans, policies, events, and refused words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenarios.files import scenario_file
from scenarios.questions.dry_run import ChangeOptions, planned
from scenarios.questions.kept import key, said_once
from scenarios.questions.knobs import bounds, knob, values
from scenarios.questions.variants import GIVEN, VariantsQuestion, short, variants
from tests.scenarios.questions.jobs import shop
from twin.errors import BadInput
from twin.plan import MOST_SUBTASKS

RATE = "workload.arrivals.clicks.rate_per_s"


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(2, 50), st.booleans())
def test_a_range_goes_from_end_to_end_in_order(low, high, count, log):
    if low == high:
        return
    found = values(f"{low}..{high}:{count}{':log' if log else ''}", "--vary x")
    assert found[0] == low and found[-1] == high
    assert found == sorted(found, reverse=low > high)
    assert len(found) <= count
    if abs(high - low) >= count - 1:
        assert all(isinstance(each, int) for each in found)


def test_short_names_of_paths_say_of_what_a_number_is():
    assert short("cluster.hosts.edge-1.cpu_percent") == "edge-1.cpu_percent"
    assert short("cluster.links.0.bandwidth_mbps") == "links.0.bandwidth_mbps"
    assert short("load") == "load"


def test_values_are_lists_ranges_and_yaml():
    assert values("0.5k, 2M,1e3", "--vary x") == [500, 2_000_000, 1000]
    assert values("1..4", "--vary x") == [1, 2, 3, 4]
    assert values("0..1:5", "--vary x") == [0, 0.25, 0.5, 0.75, 1]
    assert values("1..10k:5:log", "--vary x") == [1, 10, 100, 1000, 10000]
    assert values("a, b,a", "--vary x") == ["a", "b"]
    assert values("{law: constant, rate_per_s: 9}, {law: poisson, rate_per_s: 9}", "--vary x")[1]["law"] == "poisson"
    assert bounds("1k..2.5k", "--between") == (1000, 2500)
    assert values("5ms,0.1s", "--vary cluster.hosts.a.latency_ms") == [5, 100]
    assert values("80%, 400%", "--vary cluster.hosts.a.cpu_percent") == [80, 400]
    assert values("1min..2min:2", "--vary run.horizon_s") == [60, 120]
    with pytest.raises(BadInput, match=r"'5ms' is a duration, which x\.rate_per_s is not"):
        values("5ms", "--vary x.rate_per_s")


VALUES = ["", " ", "5..5", "1..2:1", "1..9:100000", "0..5:3:log", "1.5..2.5", "1,,2", "[1"]
BOUNDS = ["5", "1..2:3", "a..b", "3..3", ""]


@pytest.mark.parametrize(("read", "text"), [(values, text) for text in VALUES] + [(bounds, text) for text in BOUNDS])
def test_empty_and_senseless_values_and_bounds_are_refused(read, text):
    with pytest.raises(BadInput, match="--vary x"):
        read(text, "--vary x")


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_values_may_fall_and_the_ends_of_a_search_may_not(one, other):
    low, high = sorted((one, other))
    if low == high:
        return
    assert bounds(f"{low}..{high}", "--between") == (low, high)
    with pytest.raises(BadInput, match=f"write {low}..{high}"):
        bounds(f"{high}..{low}", "--between")
    listed = [values(f"{a}..{b}:2", "--vary x") for a, b in ((one, other), (other, one))]
    assert listed[0] == listed[1][::-1]


def test_a_warning_is_said_once_with_where_it_comes_from():
    said = said_once([("a", "1,200 records wait"), ("b", "3.5 records wait"), ("b", "other"), ("c", "7 records wait")])
    assert said == ["1,200 records wait (a, b and c)", "other (b)"]
    assert said_once([(name, "x") for name in "abcdefg"]) == ["x (a, b, c, d and 3 others)"]


@pytest.mark.parametrize("count", [MOST_SUBTASKS + 1, 10**12])
def test_no_list_is_made_of_more_subtasks_than_a_plan_may_have(count):
    """Too many subtasks are refused before a list of them is made, which might not fit into memory."""
    with pytest.raises(BadInput, match=f"--vary subtasks of human: {count:,} subtasks, of {MOST_SUBTASKS:,} at most"):
        knob("subtasks of human", "--vary").turned(shop(), count)
    with pytest.raises(BadInput, match=f"--rescale human={count}: {count:,} subtasks, of {MOST_SUBTASKS:,} at most"):
        planned(shop(), ChangeOptions(rescale=[f"human={count}"], at_s=5.0))


def test_a_grid_is_all_combinations_after_the_scenario_as_given():
    found = variants(shop(), VariantsQuestion(vary=[f"{RATE}=200,400,800", "subtasks of human=1,2"], policies=["ds2"]))
    assert found[0].label == GIVEN
    assert len(found) == 2 * 3 * 2  # the scenario as given is one of the grid's own
    assert len({key(each.scenario) for each in found}) == len(found)
    given = found[0].scenario.workload.arrivals["clicks"].rate_per_s
    assert found[0].settings[RATE] == given, "so that a figure over rates has its point"
    assert not variants(shop(), VariantsQuestion(vary=[f"{RATE}=1,2"]))[0].settings
    last = found[-1]
    assert last.scenario.policy.name == "ds2"
    assert last.scenario.workload.arrivals["clicks"].rate_per_s == 800
    assert last.scenario.plan.placement["human"] == ("w-1", "w-3")  # the one host with a core to spare
    assert last.label == "policy ds2, clicks.rate_per_s 800, subtasks of human 2"


def test_subtasks_stay_and_others_go_where_the_engine_puts_them_or_all_go_to_places_that_are_named():
    """Three subtasks are on each of edge-1, w-1 and w-2, and none on w-3."""
    scenario = shop()
    turn = knob("subtasks of per-page", "--vary")
    placed = {count: turn.turned(scenario, count).plan.placement["per-page"] for count in (1, 3, 6)}
    assert placed == {1: ("w-1",), 3: ("w-1", "w-1", "w-2"), 6: ("w-1", "w-1", "w-2", "w-2", "w-3", "w-3")}
    named = knob("subtasks of human", "--vary", ["w-2", "w-3"]).turned(scenario, 3).plan.placement["human"]
    assert named == ("w-2", "w-3", "w-2")
    assert knob("subtasks of human", "--vary").given(scenario) == 1
    assert turn.turned(scenario, 4) == scenario


def test_an_older_word_is_understood_and_subtasks_is_said():
    said, meant = (variants(shop(), VariantsQuestion(vary=[f"{word} of human=2"])) for word in ("replicas", "subtasks"))
    assert said == meant and said[1].label == "subtasks of human 2" and said[1].settings == {"subtasks of human": 2}
    for typo in ("subtask of human", "subtask human", "parallelism of human"):
        with pytest.raises(BadInput, match="write 'subtasks of OPERATOR'"):
            knob(typo, "--vary")


def test_places_of_subtasks_are_for_knobs_of_subtasks():
    found = variants(shop(), VariantsQuestion(vary=["subtasks of human=2", f"{RATE}=200"], on=["w-2"]))
    assert found[1].scenario.plan.placement["human"] == ("w-2", "w-2")
    with pytest.raises(BadInput, match="--on w-2: places for subtasks; say how many: --vary 'subtasks of OPERATOR="):
        variants(shop(), VariantsQuestion(vary=[f"{RATE}=200"], on=["w-2"]))


def test_operators_that_must_have_as_many_subtasks_get_as_many_and_chains_stay_together():
    scenario = scenario_file.load("clicks")  # the topic's reader and the parser are a chain
    plan = knob("subtasks of topic", "--vary").turned(scenario, 4).plan
    assert plan.placement["topic"] == plan.placement["parse"] == ("worker-1", "worker-1", "worker-2", "worker-3")
    assert plan.placement["per-user"] == scenario.plan.placement["per-user"]
    assert plan.fused == scenario.plan.fused == (("topic", "parse"),)
    there = knob("subtasks of parse", "--vary", ["worker-3"]).turned(scenario, 2).plan
    assert there.placement["topic"] == there.placement["parse"] == ("worker-3", "worker-3")


def test_events_and_plans_are_variants(tmp_path):
    plan = scenario_file.load("smart-grid").plan.model_copy(
        update={"placement": {**shop().plan.placement, "human": ("w-3",)}}
    )
    file = tmp_path / "other.yaml"
    file.write_text(scenario_file.dump(shop().with_plan(plan)))
    alone = tmp_path / "alone.yaml"
    alone.write_text("placement: {orders: w-1, clicks: w-1, human: w-1, per-page: w-1, match: w-1, board: w-1}")
    event = "kind: slow-down, at_s: 4, host: w-1, factor: 3"
    found = variants(shop(), VariantsQuestion(plans=[str(file), str(alone)], events=[event]))
    assert len(found) == 6
    assert [each.scenario.plan.placement["human"][0] for each in found] == [
        "w-1",
        "w-1",
        "w-3",
        "w-3",
        "w-1",
        "w-1",
    ]
    assert [len(each.scenario.events) for each in found] == [0, 1] * 3
    assert found[1].label == "slow-down of w-1 x3 at 4 s"


QUESTIONS = {
    "nothing to compare": VariantsQuestion(),
    "write PATH=V1,V2": VariantsQuestion(vary=["run.horizon_s"]),
    "did you mean 'horizon_s'": VariantsQuestion(vary=["run.horizon=5,6"]),
    "no values": VariantsQuestion(vary=[f"{RATE}="]),
    "nothing to compare; add": VariantsQuestion(vary=[f"{RATE}=400"]),
    "replications have seeds of their own": VariantsQuestion(vary=["run.seed=1,2"]),
    "more than 1,000": VariantsQuestion(vary=[f"{RATE}=1..900", "run.period_s=1,2"]),
    "unknown operator 'humans'; did you mean 'human'": VariantsQuestion(vary=["subtasks of humans=2"]),
    "give whole numbers from 1": VariantsQuestion(vary=["subtasks of human=0,2"]),
    "unknown policy; did you mean 'ds2'": VariantsQuestion(policies=["ds3"]),
    "unknown host 'w-9'": VariantsQuestion(events=["kind: slow-down, at_s: 4, host: w-9, factor: 3"]),
    "write an event such as": VariantsQuestion(events=["slow down"]),
    "unknown kind": VariantsQuestion(events=["kind: slowdown, at_s: 4, host: w-1, factor: 3"]),
    "at or after the end of the run": VariantsQuestion(events=["kind: slow-down, at_s: 40, host: w-1, factor: 3"]),
    "a plan of another query: it places": VariantsQuestion(plans=["smart-grid"]),
    "does not exist": VariantsQuestion(plans=["nothing.yaml"]),
    "should be greater than or equal": VariantsQuestion(vary=[f"{RATE}=-5,5"]),
}


@pytest.mark.parametrize("words", QUESTIONS)
def test_what_is_no_question_is_refused_with_a_remedy(words):
    with pytest.raises(BadInput) as refused:
        variants(shop(), QUESTIONS[words])
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)
