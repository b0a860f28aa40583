"""Limits of ordinary jobs: what is predicted and what runs prove, against arithmetic."""

from __future__ import annotations

import dataclasses

import pytest

from optimizers.objectives import at_rate
from scenarios.executing import Lines, Processes
from scenarios.files import scenario_file
from scenarios.measures import condition, measures
from scenarios.questions.bench import Bench, outcome
from scenarios.questions.capacity import CapacityQuestion, capacity
from scenarios.questions.kept import RunOutcome
from scenarios.questions.knobs import knob
from scenarios.questions.prediction import measures_predicted
from scenarios.questions.resources import binding, limits, resources
from streamtwin.answers.capacity import predicted, told
from streamtwin.answers.verdict import verdict
from tests.scenarios.questions.jobs import SHALLOW, SILENT, host, ordinary
from tests.scenarios.questions.test_capacity import close
from twin.profiles import BRISK
from twin.scenario import Scenario
from twin.simulation import simulate
from twin.spec import parse


def limit_of(name, find, of, text="not backpressured", **more):
    """Capacity of an ordinary job, as asked on the command line; without runs if `prove` is False."""
    scenario = parse(Scenario, ORDINARY[name])
    prove = more.pop("prove", True)
    question = CapacityQuestion(find, knob(of, f"--find-{find}"), condition(text, scenario), **more)
    with Bench(Processes(1)) as bench:
        return capacity(scenario, question, bench, 1, SILENT, prove=prove), bench


ORDINARY = {
    "one subtask": ordinary(1e-3, 1),
    "four subtasks": ordinary(2e-3, 4),
    "two cores for four": ordinary(4e-3, 4, cores=2, horizon_s=250) | {"engine": SHALLOW},
    "three partitions on two": ordinary(1e-3, 2, partitions=3),
    "a hot key": ordinary(1e-3, 2, shares=[65, 5, 5, 5, 5, 5, 5, 5]),
}
BEARS = {"one subtask": 1000, "four subtasks": 2000, "two cores for four": 500, "three partitions on two": 1500}
BEARS |= {"a hot key": 1000 / 0.8}
"""Records a second, by arithmetic: of a hot key 80 % of the records come to one of the two subtasks."""


@pytest.mark.slow
@pytest.mark.parametrize("name", ORDINARY)
def test_prediction_and_proof_agree_with_arithmetic_on_ordinary_jobs(name):
    """Prediction and proof are the arithmetic limit and a tolerated 1 %; the busiest subtask or the CPU binds."""
    source = next(iter(ORDINARY[name]["workload"]["arrivals"]))
    answer, bench = limit_of(name, "max", f"workload.arrivals.{source}.rate_per_s", replications=3)
    assert answer.predicted.in_long_runs == pytest.approx(BEARS[name] / 0.99, rel=0.02)
    assert close(answer, BEARS[name] / 0.99, 0.015)
    assert bench.made <= 16
    assert answer.resources[0].used > 0.97
    assert "work" in answer.binds or "CPU of big" in answer.binds
    if name in ("three partitions on two", "a hot key"):
        assert "its busiest subtask" in answer.binds and answer.resources[0].even < 0.8


@pytest.mark.parametrize("name", ORDINARY)
def test_load_is_the_rate_of_all_sources_by_one_factor(name):
    answer, bench = limit_of(name, "max", "load", prove=False)
    assert answer.status == "predicted" and bench.made == 0
    assert answer.predicted.in_long_runs == pytest.approx(BEARS[name] / 0.99 / 400, rel=0.02)
    assert told(answer).sentences[0].startswith("predicted by rates: load ")


@pytest.mark.parametrize(
    ("name", "operator", "source", "rate_per_s", "as_many", "binds"),
    [
        ("fan-out", "enrich", "events", 2000, (), "calls of archive"),  # it takes 1,500
        ("cdc", "upsert", "changes", 3200, (), "key group 0 alone has 40% of its records"),
        ("clicks", "topic", "topic", 6000, ("parse",), "operator topic"),  # more than 12 partitions at 2.5 ms bear
    ],
)
def test_no_number_of_subtasks_is_enough_where_something_else_binds(name, operator, source, rate_per_s, as_many, binds):
    scenario = scenario_file.load(name).with_set(f"workload.arrivals.{source}.rate_per_s", rate_per_s)
    turn = knob(f"subtasks of {operator}", "--find-min")
    question = CapacityQuestion("min", turn, condition("not backpressured", scenario))
    with Bench(Processes(1)) as bench:
        answer = capacity(scenario, question, bench, 1, SILENT, prove=False)
    assert answer.predicted.status == "never" and answer.predicted.value is None
    assert answer.as_many == as_many and binds in answer.predicted.binds


def test_the_cost_of_a_proof_is_what_was_said_before():
    said: list[str] = []
    scenario = parse(Scenario, ORDINARY["three partitions on two"])
    question = CapacityQuestion("max", knob("load", "--find-max"), condition("not backpressured", scenario))
    with Bench(Processes(1), of=lambda *job: dataclasses.replace(outcome(*job), cpu_s=job[0].run.horizon_s)) as bench:
        capacity(scenario, question, bench, 1, Lines(said.append))
        spent = sum(each.cpu_s for each in bench.kept.outcomes.values())
    (line,) = (line for line in said if "the proof takes about" in line)
    told_s = float(line.partition("about ")[2].partition(" ")[0].replace(",", ""))
    assert spent / 1.5 < told_s < 1.5 * spent and told_s >= 100 and "e+" not in line


@pytest.mark.parametrize("name", ["one subtask", "four subtasks"])
def test_one_is_enough_where_it_is(name):
    answer, _ = limit_of(name, "min", "subtasks of work", replications=2)
    assert (answer.status, answer.value) == ("always", 1)
    said = told(answer).sentences
    assert "1 is enough in all 2 runs of 90 s, and" in said[0] and not any("careful" in line for line in said)
    assert "in runs of a day too" in predicted(answer) and answer.longer_runs is None


@pytest.mark.parametrize(
    ("ttl_s", "day", "text"), [(None, 1e4 / 86_400 / 100, "not backpressured"), (40, 2.5, "not crashed")]
)
def test_a_job_that_runs_out_of_memory_is_predicted_not_to_keep_up(ttl_s, day, text):
    """A job that runs out of memory does not keep up: a hundred new keys a second, with room for 10,000 on the heap."""
    job = ordinary(1e-5, 2, rate_per_s=100, horizon_s=200) | {"engine": SHALLOW}
    work = {"kind": "keyed-state", "keys": 10**8, "state_bytes_per_key": 1000, "key_groups": 16, "ttl_s": ttl_s}
    job["query"]["operators"][1] |= work
    job["cluster"]["hosts"][0]["ram_mb"] = BRISK.memory.base_mb + 1e4 * 1000 * BRISK.memory.object_overhead / 1e6
    scenario = parse(Scenario, job)
    question = CapacityQuestion("max", knob("load", "--find-max"), condition(text, scenario), replications=2)
    with Bench(Processes(1)) as bench:
        answer = capacity(scenario, question, bench, 1, SILENT)
    short_run = day if ttl_s else 0.5
    assert answer.predicted.value == pytest.approx(short_run, rel=0.02)
    assert (answer.predicted.in_long_runs or 0.0) == pytest.approx(day, rel=0.05)
    assert answer.value == pytest.approx(short_run, rel=0.06) and "memory of big" in answer.predicted.binds
    said = " ".join(told(answer).sentences)
    assert "backlog" not in said and ("state grow" in said) == ("too short" in said) == (ttl_s is None)
    assert ("take the limit predicted for runs of a day, or lengthen" in said) == (ttl_s is None)


@pytest.mark.parametrize("channel_records", [10_000, 500_000])
@pytest.mark.parametrize(
    ("find", "of", "between", "day"), [("min", "subtasks of work", None, 2), ("max", "load", (0.3, 1.0), 0.631)]
)
def test_what_holds_only_until_channels_are_full_is_no_end_of_the_search(channel_records, find, of, between, day):
    """A search goes on past one core, which is enough only for the 15 s in which 600 too many a second find room; in
    longer runs channels are full, or grow to the end."""
    deep = BRISK.model_copy(update={"channel_records": channel_records}).model_dump(mode="json")
    job = ordinary(1e-3, 2 if find == "min" else 1, rate_per_s=1600, horizon_s=15) | {"engine": deep}
    scenario = parse(Scenario, job)
    question = CapacityQuestion(
        find, knob(of, f"--find-{find}"), condition("not backpressured", scenario), between, replications=2
    )
    with Bench(Processes(1)) as bench:
        answer = capacity(scenario, question, bench, 1, SILENT)
    assert (answer.status, answer.longer_runs_fail, answer.longer_runs) == ("always", 2, 2)
    assert answer.predicted.in_long_runs == pytest.approx(day, rel=0.01) and answer.predicted.value is None
    said = " ".join(told(answer).sentences)
    assert "runs of 15 s" in said and "in runs of a day (all values in runs of 15 s" in said and "no limit" not in said
    assert "not in longer ones" in said and "careful" in said
    assert "operator work" in answer.predicted.binds


@pytest.mark.slow
def test_short_runs_prove_what_long_ones_do_where_records_are_many():
    """Runs of a fraction of the length have the same limit for a job that is a hundred times as fast."""
    fast = ordinary(1e-5, 1, rate_per_s=20_000, horizon_s=60) | {"engine": "flink"}
    scenario = parse(Scenario, fast)
    borders = []
    for full_length in (False, True):
        question = CapacityQuestion(
            "max", knob("load", "--find-max"), condition("not backpressured", scenario), replications=2
        )
        question = dataclasses.replace(question, full_length=full_length)
        with Bench(Processes(1)) as bench:
            answer = capacity(scenario, question, bench, 1, SILENT)
        assert (answer.run_s < 50) != full_length
        borders.append(answer)
    assert close(borders[0], borders[1].value, 0.005)


def test_a_condition_that_the_rate_model_does_not_know_is_proved_by_runs_far_away_too():
    answer, _ = limit_of("one subtask", "max", "load", "e2e_latency_s.p99 < 20ms", replications=2)
    assert answer.predicted.ignores == ("e2e_latency_s.p99",)
    assert answer.one_limit_by == "runs" and answer.longer_runs_fail is not None
    assert 400 * answer.value < 1000


def test_a_full_cpu_comes_before_the_operators_that_wait_for_it():
    case = at_rate(parse(Scenario, ORDINARY["two cores for four"]), 2)
    listed = resources(case, [RunOutcome(measures_predicted(case))])
    assert binding(listed, case).startswith("CPU of big (100%) and operator work on big")
    assert [each.partition(" (")[0] for each in limits(listed, (), case)[0]] == ["CPU of big", "operator work"]


@pytest.mark.parametrize("key_groups", [None, 2, 16])
@pytest.mark.parametrize("partitions", [2, 4])
def test_more_subtasks_are_not_advised_where_no_partition_or_key_group_is_left_for_them(partitions, key_groups):
    job = ordinary(1e-3, 2, partitions=partitions, rate_per_s=3000, horizon_s=20) | {"engine": SHALLOW}
    then = {"name": "then", "kind": "aggregate" if key_groups else "map", "service_time_s": 2e-3}
    if key_groups:
        then |= {"group_by": "int", "groups": 4096, "key_groups": key_groups, "window": {"policy": "time", "size_s": 1}}
    job["query"]["operators"].insert(1, then)
    way = "hash" if key_groups else "forward"
    job["query"]["streams"] = [{"producer": "work", "consumer": "then", "partitioning": way}]
    job["query"]["streams"].append({"producer": "then", "consumer": "out"})
    job["plan"]["placement"]["then"] = {"big": 2}
    scenario = parse(Scenario, job)
    run = simulate(scenario)
    said = (verdict(scenario, run), binding(resources(scenario, [RunOutcome(measures(run))]), scenario))
    left = key_groups == 16 or (key_groups is None and partitions == 4)
    why = "as many subtasks as it has key groups (2)" if key_groups else "as many subtasks as work has partitions (2)"
    for words in said:
        assert "operator then on big" in words
        assert ("cores to spare" in words) == left and (why in words) != left


@pytest.mark.parametrize(
    ("name", "room"), [("one subtask", 2.5), ("three partitions on two", 3.75), ("a hot key", 3.125)]
)
def test_the_first_sentence_of_a_report_says_what_the_busiest_subtask_leaves(name, room):
    scenario = parse(Scenario, ORDINARY[name]).with_run(horizon_s=60)
    words = verdict(scenario, simulate(scenario))
    assert ("the busiest subtask of operator work" in words) == (name != "one subtask")
    assert float(words.partition("could bear about ")[2].partition(" ")[0]) == pytest.approx(room, rel=0.05)


@pytest.mark.parametrize("rate_per_s", [100, 400])
def test_links_are_predicted_to_be_as_full_as_they_are(rate_per_s):
    """Predicted utilisations of links are those of runs: 400 records a second of 1,500 bytes fill 4.8 of 8 Mbit/s."""
    scenario = scenario_file.load("lte").with_set("workload.arrivals.readings.rate_per_s", rate_per_s)
    known, found = measures_predicted(scenario), simulate(scenario)
    links = {link.link: link.utilisation for link in found.links if "->" in link.link}
    assert links["box->cloud"] == pytest.approx(rate_per_s * 1500 * 8 / 8e6, rel=0.02)
    for link, used in links.items():
        assert known[f"links.{link}.utilisation"] == pytest.approx(used, rel=0.02)


@pytest.mark.parametrize("apart", [False, True])
def test_memory_that_is_full_is_named(apart):
    """Memory that is full is named, of a socket or between two: 10,000 records of 1 MB a second fill 10 GB/s."""
    sockets = {"sockets": [{"cores": 4, "bandwidth_gbps": 10}, {"cores": 4}]}
    if apart:
        sockets = {"sockets": [{"cores": 4}] * 2}
        sockets["numa"] = {"latency_ns": [[0, 0], [0, 0]], "bandwidth_gbps": [[1000, 10], [10, 1000]]}
    feed = {"name": "in", "kind": "source", "service_time_s": 0, "record_bytes": 1_000_000, "memory_bytes": 0}
    work = {"name": "work", "kind": "map", "service_time_s": 1e-4, "memory_bytes": 0 if apart else 1_000_000}
    out = {"name": "out", "kind": "sink", "service_time_s": 0, "memory_bytes": 0}
    job = ordinary(1e-4, 8, rate_per_s=9_600) | {
        "query": {"operators": [feed, work, out], "streams": ORDINARY["four subtasks"]["query"]["streams"]},
        "cluster": {"hosts": [host("big", 8, ram_mb=16_000, bandwidth_mbps=10_000) | sockets]},
        "plan": {"placement": {"in": "big/1" if apart else "big", "work": {"big": 8}, "out": "big"}},
    }
    scenario = parse(Scenario, job)
    named = binding(resources(scenario, [RunOutcome(measures_predicted(scenario))]), scenario)
    assert f"memory bandwidth of {'big/1->big' if apart else 'big'} (96%)" in named
