"""Capacity: bisection against brute force, queues against theory, and refusals of the command."""

from __future__ import annotations

import dataclasses
import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from figures.border import border as figure_of
from scenarios.executing.processes import Processes
from scenarios.executing.progress import Lines
from scenarios.files import scenario_file
from scenarios.questions.bench import Bench, outcome
from scenarios.questions.bisection import FAR, Range, broken, search, spot_checks
from scenarios.questions.capacity import CapacityQuestion, capacity
from scenarios.questions.condition import condition
from scenarios.questions.kept import RunOutcome
from scenarios.questions.knobs import HostsKnob, knob, strongest
from scenarios.questions.measures import measures
from scenarios.questions.prediction import FEW, measures_predicted
from scenarios.questions.proof import FIRST, MOST
from scenarios.questions.resources import binding, resources
from streamtwin.answers.capacity import predicted, told
from streamtwin.notebook.questions import capacity as in_python
from streamtwin.report.verdict import verdict
from tests.commands import refused, twin
from tests.scenarios.questions.jobs import host, queue, shop
from tests.test_docs import COMMAND
from twin.errors import BadInput
from twin.profiles import BRISK
from twin.scenario import Scenario
from twin.simulation import simulate
from twin.spec import parse

SILENT = Lines(lambda _text: None)
RATE = "workload.arrivals.in.rate_per_s"
MU = 1000.0


def asked(scenario, find, of, text, *, replications=4, between=None, precision=0.01, places=()):
    question = CapacityQuestion(
        find, knob(of, f"--find-{find}", places), condition(text, scenario), between, precision, replications
    )
    with Bench(Processes(1)) as bench:
        return capacity(scenario, question, bench, 1, SILENT)


@given(
    borders=st.lists(st.floats(0.01, 5000.0), min_size=1, max_size=4),
    start=st.floats(1.0, 100.0),
    upward=st.booleans(),
)
def test_borders_are_bracketed_as_narrowly_as_asked(borders, start, upward):
    within = Range(start, start / 1024, start * 1024, upward, 0.01)
    found = search(lambda asked: [(v <= borders[i]) == upward for i, v in asked], range(len(borders)), within)
    for border, each in zip(borders, found, strict=True):
        if each.found:
            low, high = sorted((each.good, each.bad))
            assert low <= border <= high
            assert high - low <= 0.01 * high
        else:
            assert not within.low < border < within.high
        assert len(each.seen) <= 24


@given(border=st.integers(1, 300), start=st.integers(1, 50), upward=st.booleans())
def test_whole_numbers_are_found_exactly(border, start, upward):
    within = Range(float(start), 1.0, 1024.0, upward, 0.01, whole=True)
    (found,) = search(lambda asked: [(v <= border) if upward else (v >= border) for _, v in asked], [0], within)
    if upward or border > 1:
        assert found.middle(whole=True) == border
        assert found.bad == border + (1 if upward else -1)
    else:
        assert found.bad is None and found.good == 1


@given(st.floats(-8, 8))
def test_limits_may_be_negative(border):
    within = Range(0.0, -10.0, 10.0, True, 0.01, jumps=True)
    (found,) = search(lambda asked: [v <= border for _, v in asked], [0], within)
    assert found.good <= border <= found.bad


def test_a_second_border_is_noticed():
    within = Range(10.0, 1.0, 100.0, True, 0.01, bounded=True, jumps=True)

    def holds(value):
        return value < 20 or 55 < value < 75

    (found,) = search(lambda asked: [holds(v) for _, v in asked], [0], within)
    for value in spot_checks(within, found.middle(whole=False)):
        found.seen[value] = holds(value)
    fails, again = broken(found.seen, upward=True)
    assert not holds(fails) and holds(again) and fails < again
    assert broken({1.0: True, 2.0: False}, upward=True) is None
    assert broken({1.0: True, 2.0: False}, upward=False) == (2.0, 1.0)
    assert broken({1.0: True}, upward=True) is None


def close(answer, theory, share):
    """Whether an answer is within four standard errors (intervals have two) and a share that fast runs may be off."""
    low, high = answer.interval95
    return abs(answer.value - theory) <= (high - low) + share * theory


def test_runs_that_are_too_short_are_said_to_be():
    answer = asked(queue(horizon_s=20), "max", RATE, "not backpressured", replications=3)
    assert answer.value > 1.03 * MU
    assert answer.longer_runs_fail >= 2
    assert any("too short" in line for line in told(answer).sentences)
    assert "not in longer ones" in told(answer).sentences[0]


@pytest.mark.slow
def test_a_queue_keeps_its_latency_up_to_the_rate_of_theory():
    """An M/M/1 queue has a mean time of 4 ms, 1 / (mu - lambda), up to 750 a second, where nothing is full."""
    answer = asked(queue(horizon_s=25), "max", RATE, "e2e_latency_s < 0.004", precision=0.005)
    assert close(answer, 750.0, 0.01)
    assert answer.fails_first == {"e2e_latency_s < 0.004": 4}
    assert any("nothing is full" in line for line in told(answer).sentences)
    work = next(each for each in answer.resources if each.name == "work")
    assert work.head_room == pytest.approx(MU / answer.value, rel=0.05)


def test_replicas_are_as_many_as_the_load_is():
    """2,500 a second at 1 ms need three replicas, which are 83 % busy; two are too few."""
    answer = asked(queue(rate_per_s=2500, horizon_s=40), "min", "replicas of work", "not backpressured")
    assert answer.value == 3 and answer.borders == (3,) * 4
    assert answer.share_that_holds95 == pytest.approx(0.05**0.25)
    assert answer.resources[0].used == pytest.approx(2.5 / 3, abs=0.02)


def test_conditions_that_always_or_never_hold_are_said_to():
    scenario = shop(horizon_s=4)
    always = asked(scenario, "max", "workload.arrivals.orders.rate_per_s", "throughput_per_s >= 0", replications=2)
    assert always.status == "always" and always.value is None
    assert "holds at every value tried" in told(always).sentences[0]
    assert max(always.values) == FEW * 50  # no limit is predicted, so runs do not look for one for ever
    never = asked(scenario, "max", "workload.arrivals.orders.rate_per_s", "throughput_per_s > 1e9", replications=2)
    assert never.status == "never"
    assert "holds at no value tried" in told(never).sentences[0]
    predicted = told(dataclasses.replace(never, status="predicted")).sentences[0]
    assert f"no value tried, for {never.of} from {50 / FAR:.3g} to 50" in predicted
    none = dataclasses.replace(never.predicted, status="never", binds="operator pay")
    short = dataclasses.replace(never, status="sometimes", predicted=none)
    assert "what binds: operator pay. Run longer" in told(short).sentences[0]
    found = dataclasses.replace(short, predicted=dataclasses.replace(none, status="found"))
    assert "--between" in told(found).sentences[0]
    wrong = asked(queue(horizon_s=4), "max", RATE, "throughput_per_s > 400", replications=2)
    assert wrong.monotone is False
    assert any("more than one limit" in line for line in told(wrong).sentences)


def test_the_end_of_what_is_valid_is_a_border_with_a_reason():
    scenario = shop(horizon_s=4)
    answer = asked(scenario, "max", "replicas of per-page", "not crashed", replications=2)
    assert answer.value == 16
    assert "16 key groups for 17 replicas" in answer.not_valid.replace("'", "")


def test_hosts_are_the_strongest_and_planned_anew():
    scenario = scenario_file.load("smart-grid")
    assert strongest(scenario.cluster, 2) == ["fog-2", "cloud-1"]
    smaller = HostsKnob("--find-min").turned(scenario, 2)
    assert [host.name for host in smaller.cluster.hosts] == ["fog-2", "cloud-1"]
    assert {place[0] for place in smaller.plan.placement.values()} <= {"fog-2", "cloud-1"}
    with pytest.raises(BadInput, match="the cluster has 6"):
        HostsKnob("--find-min").turned(scenario, 7)


@pytest.mark.slow
def test_the_command_answers_goes_on_and_is_the_same_by_any_number_of_workers(tmp_path):
    file = tmp_path / "queue.yaml"
    file.write_text(scenario_file.dump(queue(horizon_s=4)))
    words = ["capacity", file, "--find-max", RATE, "--while", "e2e_latency_s.p99 < 0.05", "--replications", 3]
    first = twin(*words, "--json", "--out", tmp_path / "a", "--workers", 1)
    assert first.returncode == 0, first.stderr
    answer = json.loads(first.stdout)
    assert answer["status"] == "found"
    runs = (tmp_path / "a" / "runs.jsonl").read_text()
    again = twin(*words, "--json", "--out", tmp_path / "a", "--workers", 2)
    assert again.stdout == first.stdout
    assert (tmp_path / "a" / "runs.jsonl").read_text() == runs
    assert (tmp_path / "a" / "figure.png").exists() and (tmp_path / "a" / "table.csv").exists()


def test_what_is_no_question_is_refused(tmp_path):
    file = tmp_path / "shop.yaml"
    file.write_text(scenario_file.dump(shop()))
    rate = ("--find-max", "workload.arrivals.orders.rate_per_s")
    assert "give either --find-max or --find-min" in refused("capacity", file)
    assert "give either" in refused("capacity", file, *rate, "--find-min", "hosts")
    assert "did you mean" in refused("capacity", file, "--find-max", "workload.arrivals.order.rate_per_s")
    assert "say where to look" in refused(
        "capacity", file, "--find-max", "run.precision", "--set", "run.precision=null"
    )
    assert "seeds of their own" in refused("capacity", file, "--find-max", "run.seed")
    assert "stands at 'shop'" in refused("capacity", file, "--find-max", "name")
    assert "unknown metric 'fast'" in refused("capacity", file, *rate, "--while", "fast")
    for name, meant in (("e2e_latency_s.p999", "did you mean 'e2e_latency_s.p99'"), ("p99", "or e2e_latency_s.p99")):
        assert meant in refused("capacity", file, *rate, "--while", f"{name} < 1s")
    assert "write 'replicas of OPERATOR'" in refused("capacity", file, "--find-min", "replica of human")
    assert "is no condition" in refused("capacity", file, *rate, "--while", "fast enough")
    for slip in ("e2e_latency_s.p99<500", "not backpressured and not e2e_latency_s >= 500"):
        refusal = refused("capacity", file, *rate, "--while", slip)
        assert "exceeds the horizon of" in refusal and "500ms" in refusal
    unpaired = ("--set", "query.streams.clicks->human.partitioning=forward", "--set", "plan.placement.human=[w-1,w-1]")
    assert "needs equal replicas" in refused("capacity", file, *rate, *unpaired, "--predict-only")
    assert "did you mean 'load'" in refused("capacity", file, "--find-max", "loads")
    assert "is a single value" in refused("capacity", file, *rate, "--between", "5..5")
    assert "goes with" in refused("capacity", file, *rate, "--on", "w-1")
    assert "unknown host 'w-9'" in refused("capacity", file, "--find-min", "replicas of human", "--on", "w-9")
    assert "unknown policy" in refused("capacity", file, *rate, "--policy", "ds3")


def test_the_figure_has_a_dot_a_value():
    table = {"value": [1.0, 1.0, 2.0, 3.0], "holds": [1, 1, 1, 0]}
    axes = figure_of(table, "rate", (2.2, 2.8)).axes[0]
    dots = [(line.get_xdata()[0], line.get_ydata()[0]) for line in axes.lines]
    assert dots == [(1.0, 1.0), (2.0, 1.0), (3.0, 0.0)]
    assert len(axes.patches) == 1


def limit_of(name, find, of, text="not backpressured", **more):
    """Capacity of an ordinary job, as asked on the command line; without runs if `prove` is False."""
    scenario = parse(Scenario, ORDINARY[name])
    prove = more.pop("prove", True)
    question = CapacityQuestion(find, knob(of, f"--find-{find}"), condition(text, scenario), **more)
    with Bench(Processes(1)) as bench:
        return capacity(scenario, question, bench, 1, SILENT, prove=prove), bench


def ordinary(service_s, replicas, partitions=None, shares=None, cores=16, rate_per_s=400, horizon_s=90):
    """Job of a source and an operator of so many subtasks, fed evenly, by keys or by partitions."""
    work = {"name": "work", "kind": "map", "service_time_s": service_s}
    feed = {"name": "in", "kind": "source", "service_time_s": 1e-6}
    if partitions:
        work = {"name": "work", "kind": "kafka-source", "partitions": partitions, "service_time_s": service_s}
    elif shares:
        work["key_groups"] = len(shares)
    chain = [work, {"name": "out", "kind": "sink"}] if partitions else [feed, work, {"name": "out", "kind": "sink"}]
    names = [operator["name"] for operator in chain]
    streams = [{"producer": a, "consumer": b} for a, b in itertools.pairwise(names)]
    if shares:
        streams[0]["partitioning"] = "hash"
    return {
        "name": "ordinary",
        "query": {"operators": chain, "streams": streams},
        "cluster": {"hosts": [host(name, cores, ram_mb=16_000, bandwidth_mbps=10_000) for name in ("big", "other")]},
        "plan": {"placement": {name: {"big": replicas} if name == "work" else "other" for name in names}},
        "workload": {
            "arrivals": {names[0]: {"law": "poisson", "rate_per_s": rate_per_s}},
            "keys": {"work": {"shares": shares}} if shares else {},
        },
        "run": {"horizon_s": horizon_s, "warmup_s": 10, "period_s": 1},
    }


SHALLOW = BRISK.model_copy(update={"channel_tuples": 100}).model_dump(mode="json")
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
def test_no_number_of_replicas_is_enough_where_something_else_binds(name, operator, source, rate_per_s, as_many, binds):
    scenario = scenario_file.load(name).with_set(f"workload.arrivals.{source}.rate_per_s", rate_per_s)
    turn = knob(f"replicas of {operator}", "--find-min")
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
    assert spent / 1.5 < told_s < 1.5 * spent


@pytest.mark.parametrize("name", ["one subtask", "four subtasks"])
def test_one_is_enough_where_it_is(name):
    answer, _ = limit_of(name, "min", "replicas of work", replications=2)
    assert (answer.status, answer.value) == ("always", 1)
    said = told(answer).sentences
    assert "1 is enough in all 2 runs of 90 s, and" in said[0] and not any("careful" in line for line in said)
    assert "in runs of a day too" in predicted(answer) and answer.longer_runs is None


@pytest.mark.parametrize(("ttl_s", "day"), [(None, 1e4 / 86_400 / 100), (40, 2.5)])
@pytest.mark.parametrize("text", ["not backpressured", "not crashed"])
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


@pytest.mark.parametrize(("channel_tuples", "failing"), [(10_000, 2), (500_000, 0)])
@pytest.mark.parametrize(
    ("find", "of", "between", "day"), [("min", "replicas of work", None, 2), ("max", "load", (0.3, 1.0), 0.631)]
)
def test_what_holds_only_until_channels_are_full_is_no_end_of_the_search(
    channel_tuples, failing, find, of, between, day
):
    """A search goes on past one core, which is enough only for the 15 s in which 600 too many a second find room."""
    deep = BRISK.model_copy(update={"channel_tuples": channel_tuples}).model_dump(mode="json")
    job = ordinary(1e-3, 2 if find == "min" else 1, rate_per_s=1600, horizon_s=15) | {"engine": deep}
    scenario = parse(Scenario, job)
    question = CapacityQuestion(
        find, knob(of, f"--find-{find}"), condition("not backpressured", scenario), between, replications=2
    )
    with Bench(Processes(1)) as bench:
        answer = capacity(scenario, question, bench, 1, SILENT)
    assert (answer.status, answer.longer_runs_fail, answer.longer_runs) == ("always", failing, 2)
    assert answer.predicted.in_long_runs == pytest.approx(day, rel=0.01) and answer.predicted.value is None
    said = " ".join(told(answer).sentences)
    assert "runs of 15 s" in said and "in runs of a day (all values in runs of 15 s" in said and "no limit" not in said
    assert ("not in longer ones" in said) == (failing == 2) and "careful" in said
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


@pytest.mark.parametrize("key_groups", [None, 2, 16])
@pytest.mark.parametrize("partitions", [2, 4])
def test_more_replicas_are_not_advised_where_no_partition_or_key_group_is_left_for_them(partitions, key_groups):
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


def test_what_is_full_for_a_part_of_the_run_is_said_to_be_so():
    """A queue that is full for the last fifth of the run, at twice the rate, is not said to be full all the time."""
    burst = {"kind": "rate-change", "at_s": 80.0, "source": "in", "factor": 2.0}
    scenario = queue(horizon_s=100, period_s=10).with_set("events", [burst])
    answer = asked(scenario, "max", RATE, "not backpressured", replications=2)
    assert not answer.binds and answer.value < 0.9 * MU
    assert any(line.startswith("nothing is full all the time") for line in told(answer).sentences)


def test_help_says_how_many_runs_there_are():
    parameters = COMMAND.commands["capacity"].params
    (said,) = (each.help for each in parameters if each.name == "replications")
    assert f"Default: {FIRST} to {MOST}" in said
    assert f"None: {FIRST}, or up to {MOST}" in " ".join(in_python.__doc__.split())
