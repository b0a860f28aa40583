"""Capacity: the search for a border against brute force, queues against theory, and the command."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from figures.answers import border as figure_of
from scenarios.executing import Lines, Processes
from scenarios.files import scenario_file
from scenarios.measures import condition
from scenarios.questions.bench import Bench
from scenarios.questions.bisection import FAR, Range, broken, search, spot_checks
from scenarios.questions.capacity import FIRST, MOST, CapacityQuestion, capacity
from scenarios.questions.knobs import HostsKnob, knob, strongest
from scenarios.questions.prediction import FEW
from streamtwin.answers.capacity import told
from streamtwin.notebook import capacity as in_python
from tests.commands import refused, twin
from tests.scenarios.questions.jobs import queue, shop
from tests.test_docs import COMMAND
from twin.errors import BadInput

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
    lasting, short, *_ = told(answer).sentences
    assert lasting.startswith(f"{RATE}: 1,010 lasts, as predicted by rates") and "not in longer ones" in short


@pytest.mark.slow
def test_a_queue_keeps_its_latency_up_to_the_rate_of_theory():
    """An M/M/1 queue has a mean time of 4 ms, 1 / (mu - lambda), up to 750 a second, where nothing is full."""
    answer = asked(queue(horizon_s=25), "max", RATE, "e2e_latency_s < 0.004", precision=0.005)
    assert close(answer, 750.0, 0.01)
    assert answer.fails_first == {"e2e_latency_s < 0.004": 4}
    assert any("nothing is full" in line for line in told(answer).sentences)
    work = next(each for each in answer.resources if each.name == "work")
    assert work.head_room == pytest.approx(MU / answer.value, rel=0.05)


def test_subtasks_are_as_many_as_the_load_is():
    """2,500 a second at 1 ms need three subtasks, which are 83 % busy; two are too few."""
    answer = asked(queue(rate_per_s=2500, horizon_s=40), "min", "subtasks of work", "not backpressured")
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
    answer = asked(scenario, "max", "subtasks of per-page", "not crashed", replications=2)
    assert answer.value == 16
    assert "16 key groups for 17 subtasks" in answer.not_valid.replace("'", "")


def test_hosts_are_the_strongest_and_planned_anew():
    scenario = scenario_file.load("smart-grid")
    assert strongest(scenario.cluster, 2) == ["fog-2", "cloud-1"]
    smaller = HostsKnob("--find-min").turned(scenario, 2)
    assert [host.name for host in smaller.cluster.hosts] == ["edge-1", "cloud-1"]  # the meters are pinned to edge-1
    assert {place[0] for place in smaller.plan.placement.values()} <= {"edge-1", "cloud-1"}
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
    assert "write 'subtasks of OPERATOR'" in refused("capacity", file, "--find-min", "subtask of human")
    assert "is no condition" in refused("capacity", file, *rate, "--while", "fast enough")
    for slip in ("e2e_latency_s.p99<500", "not backpressured and not e2e_latency_s >= 500"):
        refusal = refused("capacity", file, *rate, "--while", slip)
        assert "exceeds the horizon of" in refusal and "500ms" in refusal
    unpaired = ("--set", "query.streams.clicks->human.partitioning=forward", "--set", "plan.placement.human=[w-1,w-1]")
    assert "needs equal subtasks" in refused("capacity", file, *rate, *unpaired, "--predict-only")
    assert "did you mean 'load'" in refused("capacity", file, "--find-max", "loads")
    assert "is a single value" in refused("capacity", file, *rate, "--between", "5..5")
    assert "goes with" in refused("capacity", file, *rate, "--on", "w-1")
    assert "unknown host 'w-9'" in refused("capacity", file, "--find-min", "subtasks of human", "--on", "w-9")
    assert "unknown policy" in refused("capacity", file, *rate, "--policy", "ds3")


def test_the_figure_has_a_dot_a_value():
    table = {"value": [1.0, 1.0, 2.0, 3.0], "holds": [1, 1, 1, 0]}
    axes = figure_of(table, "rate", (2.2, 2.8)).axes[0]
    dots = [(line.get_xdata()[0], line.get_ydata()[0]) for line in axes.lines]
    assert dots == [(1.0, 1.0), (2.0, 1.0), (3.0, 0.0)]
    assert len(axes.patches) == 1


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
    assert f"Default: {FIRST} to {MOST}" in in_python.__doc__
