"""Tests of limits: found, predicted, proved, and whether they last."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from figures.answers import border as figure_of
from optimizers.objectives import at_rate
from scenarios.executing import Processes
from scenarios.files import scenario_file
from scenarios.files.scenario_file import set_value
from scenarios.measures import condition
from scenarios.questions.bench import Bench, Wanted, outcome_of
from scenarios.questions.bisection import FAR, Prober, Range, broken, search, spot_checks
from scenarios.questions.capacity import FIRST, MOST, CapacityQuestion, capacity, lasting, load_predicted
from scenarios.questions.knobs import HostsKnob, knob, strongest
from scenarios.questions.prediction import FEW
from scenarios.questions.resources import binding, resources
from scenarios.questions.variants import Variant
from scenarios.questions.whatif import compared
from streamtwin.answers.capacity import predicted, told
from streamtwin.notebook import capacity as in_python
from tests import commands
from tests.commands import refused, twin
from tests.scenarios.questions.jobs import SILENT, ordinary, queue, shop
from tests.test_docs import COMMAND
from tests.twin.worlds import chain
from twin.errors import BadInput
from twin.profiles import BRISK
from twin.rates.model import RateModel
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate
from twin.spec import parse

# limits --------------------------------------------------------------------------------------------------------------
# Capacity: the search for a border against brute force, queues against theory, and the command.


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


# limits that last ----------------------------------------------------------------------------------------------------
# Limits that last: of jobs whose channels hide an overload in short runs, whose keys are uneven, or that no formula
# tells.


SUBTASKS = "subtasks of work"
KEEPS = condition("not backpressured", parse(Scenario, ordinary(0.01, 1)))


def predicted_limit(scenario, find, of, text="not backpressured", between=None):
    """Answer of capacity without runs."""
    question = CapacityQuestion(find, knob(of, f"--find-{find}"), condition(text, scenario), between)
    with Bench(Processes(1)) as bench:
        return capacity(scenario, question, bench, 1, SILENT, prove=False)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("between", [None, (2, 9), (4, 12)])
def test_of_uneven_keys_the_least_number_that_is_enough_is_that_of_trying_all(seed, between):
    """With few key groups of unequal shares a further subtask may get two heavy ones, and bear less."""
    shares = np.random.default_rng(seed).gamma(0.7, size=16) + 0.05
    scenario = parse(Scenario, ordinary(0.01, 3, shares=[*map(float, shares)], rate_per_s=330))
    low, high = between or (1, 16)
    turned = knob(SUBTASKS, "--find-min")
    enough = [
        count
        for count in range(low, high + 1)
        if RateModel().lasting().predict(case := turned.turned(scenario, count), [case.plan])["backpressured"][0] < 0.5
    ]
    found = predicted_limit(scenario, "min", SUBTASKS, between=between).predicted
    if not enough:
        assert found.status == "never"
    elif len(enough) < high - low + 1:
        assert found.in_long_runs == enough[0]


def test_more_subtasks_whose_buffers_hold_more_bear_no_more():
    """Behind the operator stands one that is overloaded whatever one does: 400 records a second at 4 ms."""
    job = ordinary(0.001, 2, rate_per_s=400)
    job["query"]["operators"].insert(2, {"name": "late", "kind": "map", "service_time_s": 0.004})
    job["query"]["streams"][1:] = [{"producer": "work", "consumer": "late"}, {"producer": "late", "consumer": "out"}]
    job["plan"]["placement"]["late"] = "other"
    scenario = parse(Scenario, job | {"engine": "flink"})
    found = predicted_limit(scenario, "min", SUBTASKS).predicted
    assert (found.status, found.value, found.in_long_runs) == ("never", None, None)
    assert "late" in found.binds


def test_a_condition_of_which_nothing_is_predicted_is_left_to_runs():
    scenario = parse(Scenario, ordinary(0.001, 2))
    answer = predicted_limit(scenario, "max", "load", "e2e_latency_s.p99 < 5s")
    assert answer.predicted.status == "unknown" and answer.predicted.value is None
    assert predicted(answer).startswith("not predicted: e2e_latency_s.p99 < 5s") and "only runs" in predicted(answer)


@pytest.mark.parametrize(
    ("name", "plans"),
    [("orders", 1), ("exactly-once", 1), ("enrichment", 1), ("clicks", 1), ("edge-filter", 4), ("rush-hour", 4)],
)
def test_the_load_that_a_plan_bears_is_where_it_begins_to_fall_behind(name, plans):
    """As given, and with what may move on hosts drawn at random: joins, shared CPUs and links included."""
    given, draw = scenario_file.load(name), np.random.default_rng(5)
    hosts = [each.name for each in given.cluster.hosts]
    for drawn in range(plans):
        moved = {each.name: [str(draw.choice(hosts))] for each in given.query.operators if drawn and not each.pinned}
        job = given.with_plan(given.plan.with_placement(given.plan.placement | moved))
        bears = load_predicted(job).lasting
        behind = [
            RateModel().lasting().predict(at_rate(job, bears * share), [job.plan])["backpressured"][0] > 0.5
            for share in (0.99, 1.01)
        ]
        assert behind == [False, True]


def test_optimize_says_of_a_plan_what_capacity_predicts(tmp_path):
    """Twice the load makes four times as many matches."""
    better = tmp_path / "better.yaml"
    found = commands.answer("optimize", "orders", "--head-room", "0", "--estimates", "20", "--out", better)["hosts"]
    limit = commands.answer("capacity", better, "--find-max", "load", "--predict-only")["predicted"]
    assert (found["bears"], found["binds"]) == (limit["in_long_runs"], limit["binds"])
    assert limit["in_long_runs"] < 1.9  # it is quadratic: the busiest operator is 55 % busy


def test_the_reason_belongs_to_the_limit_that_is_told():
    """Two subtasks hide an overload while channels fill, four are needed; with three, a key group is what binds."""
    job = ordinary(0.01, 1, shares=[0.6, 0.2, 0.1, 0.1], rate_per_s=150, horizon_s=60) | {"engine": DEEP}
    found = predicted_limit(parse(Scenario, job), "min", SUBTASKS).predicted
    assert (found.value, found.in_long_runs) == (2, 4)
    assert "key group 0 alone has 60%" in found.binds


DEEP = BRISK.model_copy(update={"channel_records": 2000}).model_dump(mode="json")


@pytest.mark.parametrize("checkpoints", [None, {"interval_s": 5}])
def test_a_limit_that_does_not_last_is_told_as_one_with_checkpoints_too(checkpoints):
    """A subtask takes 100 records a second; a channel of 2,000 hides a third more for a minute."""
    job = ordinary(0.01, 1, rate_per_s=50, horizon_s=60) | {"engine": DEEP, "checkpoints": checkpoints}
    scenario = parse(Scenario, job)
    question = CapacityQuestion("max", knob("load", "--find-max"), condition("not backpressured", scenario))
    with Bench(Processes(1)) as bench:
        answer = capacity(scenario, replace(question, replications=2), bench, 1, SILENT)
    first, *others = told(answer).sentences
    assert first.startswith("load: 2") and "lasts, as predicted" in first and "what binds: operator work" in first
    assert answer.predicted.lasting == pytest.approx(2, rel=0.02) and answer.value > 2.2
    assert any(line.startswith("careful: the runs are too short") for line in others)
    assert not any(line.endswith("no other is predicted") for line in others)
    assert any(line.startswith("what binds in runs of 60 s") for line in others)
    assert answer.predicted_fails == 0  # else runs as long as the others fail where the prediction holds
    apart = replace(answer, beside=replace(answer.beside, factor=0.6, agrees=False))  # in runs as short as these
    assert told(apart).sentences[0] == first and not any(line.endswith("its fault") for line in told(apart).sentences)
    assert not told(replace(apart, predicted_fails=None)).sentences[0].startswith(first)  # nothing speaks for it
    refuted = "\n".join(told(replace(answer, predicted_fails=2)).sentences)
    assert "lasts, as predicted" not in refuted and "take the limit predicted" not in refuted
    assert f"and at {answer.predicted.lasting:.4g}, which is predicted to last, the condition fails" in refuted
    assert (
        told(replace(answer, predicted_fails=2, lasts_in_runs=3))
        .sentences[0]
        .startswith("load: 3 lasts in runs of 240")
    )


@pytest.mark.parametrize(("rate_per_s", "predicted", "fails", "lasts"), [(150, 2, 0, None), (250, 2, 2, 3)])
def test_beyond_a_limit_that_does_not_last_longer_runs_look_for_one_that_does(rate_per_s, predicted, fails, lasts):
    """Two subtasks take 200 records a second, whatever somebody predicts."""
    scenario = parse(Scenario, ordinary(0.01, 1, rate_per_s=rate_per_s, horizon_s=15) | {"engine": DEEP})
    with Bench(Processes(1)) as bench:
        prober = Prober(scenario, knob(SUBTASKS, "--find-min"), KEEPS, bench, SILENT, 1)
        found = lasting(prober, predicted, Range(1.0, 1.0, 16.0, upward=False, tolerance=0.01, whole=True))
    assert found == (fails, lasts)


@pytest.mark.parametrize("name", ["gateways", "lte", "edge-filter"])
def test_fewer_hosts_keep_what_cannot_move(name):
    given = scenario_file.load(name)
    pinned = {each.name: given.plan.placement[each.name] for each in given.query.operators if each.pinned}
    storage = given.cluster.hosts[-1].name
    given = set_value(given, f"checkpoints={{interval_s: 10, storage: {storage}}}")
    needed = {host.partition("/")[0] for places in pinned.values() for host in places} | {storage}
    for count in range(1, 1 + len(given.cluster.hosts)):
        if count < len(needed):
            with pytest.raises(BadInput, match=f"{len(needed)} have to stay"):
                HostsKnob("--find-min").turned(given, count)
        else:
            case = HostsKnob("--find-min").turned(given, count)
            assert len(case.cluster.hosts) == count and needed <= {host.name for host in case.cluster.hosts}
            assert {key: case.plan.placement[key] for key in pinned} == pinned


def test_a_condition_that_never_holds_is_told_with_the_number_that_comes_nearest():
    """Sessions end 20 s after their last record, whatever the load."""
    job = ordinary(0.001, 1, rate_per_s=20)
    job["query"]["operators"][1] |= {"kind": "session", "gap_s": 20, "keys": 100, "key_groups": 4}
    answer = predicted_limit(parse(Scenario, job), "max", "load", "e2e_latency_s < 1s")
    assert answer.predicted.status == "never"
    nearest_s = float(answer.predicted.nearest.partition("e2e_latency_s is ")[2].partition(" ")[0])
    assert nearest_s >= 20 and "for windows of work" in answer.predicted.nearest
    assert answer.predicted.nearest in predicted(answer)


def overloaded(rate_per_s):
    """A subtask that takes 100 records a second, behind a channel that nothing fills."""
    work = {"kind": "map", "name": "m", "service_time_s": 0.01}
    return chain([work], rate_per_s, engine=BRISK.model_copy(update={"channel_records": 100_000}))


@pytest.mark.parametrize("period_s", [10.0, 5.0, 2.0])
def test_queues_that_grow_are_seen_in_few_periods(period_s):
    settings = RunSettings(horizon_s=90, warmup_s=10, period_s=period_s)
    found = simulate(Scenario.of(overloaded(150), settings)).metrics
    assert not found.backpressured and not found.keeps_up
    assert found.queue_growth_per_s == pytest.approx(50, rel=0.2)
    steady = [simulate(Scenario.of(overloaded(50), settings.model_copy(update={"seed": each}))) for each in range(20)]
    assert sum(not run.metrics.keeps_up for run in steady) <= 3  # one in a hundred by chance


@pytest.mark.parametrize(("rate_per_s", "factor", "grows"), [(50, 3.0, True), (150, 0.5, False), (50, 1.5, False)])
def test_queues_are_judged_after_the_last_change(rate_per_s, factor, grows):
    """What came before a change, and what it left waiting, does not count."""
    change = f"events=[{{kind: rate-change, at_s: 20, source: source, factor: {factor}}}]"
    settings = RunSettings(horizon_s=120, warmup_s=10, period_s=4)
    job = set_value(Scenario.of(overloaded(rate_per_s), settings), change)
    runs = [simulate(job.with_run(seed=each)).metrics for each in range(10)]
    assert sum(run.keeps_up for run in runs) == (0 if grows else 10)
    grown = np.array([run.queue_growth_per_s for run in runs])
    assert grown.mean() == pytest.approx(50 * grows, rel=0.1)


def test_a_run_of_which_one_subtask_is_full_may_be_too_short():
    """One of two subtasks takes 30 records a second of 50, and the other is half idle."""
    job = ordinary(0.01, 2, rate_per_s=100, horizon_s=40)
    job["cluster"]["hosts"][1]["core_percent"] = 30
    job["plan"]["placement"]["work"] = ["big", "other"]
    made = simulate(scenario := parse(Scenario, job))
    assert made.full == ("work",)
    found = next(each for each in resources(scenario, [outcome_of(made)]) if each.name == "work")
    assert found.full_on == ("other",) and found.used == pytest.approx(1.0, abs=0.01)
    assert "operator work on other (its busiest" in binding([found], scenario)


def test_variants_whose_queues_grow_do_not_keep_up():
    settings = RunSettings(horizon_s=90, warmup_s=10, period_s=10)
    cases = [Variant(f"{rate}/s", Scenario.of(overloaded(rate), settings)) for rate in (50, 150)]
    with Bench(Processes(1)) as bench:
        answer = compared(bench, cases, ["throughput_per_s"], Wanted(2), 1, SILENT)
    assert [each.backpressured_runs for each in answer.variants] == [0, 2]
