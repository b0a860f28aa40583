"""Limits that last: of jobs whose channels hide an overload in short runs, whose keys are uneven, or that no formula
tells."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from optimizers.objectives import at_rate
from scenarios.executing import Processes
from scenarios.files import scenario_file
from scenarios.files.scenario_file import set_value
from scenarios.measures import condition
from scenarios.questions.bench import Bench, Wanted, outcome_of
from scenarios.questions.bisection import Prober, Range
from scenarios.questions.capacity import CapacityQuestion, capacity, lasting, load_predicted
from scenarios.questions.knobs import HostsKnob, knob
from scenarios.questions.resources import binding, resources
from scenarios.questions.variants import Variant
from scenarios.questions.whatif import compared
from streamtwin.answers.capacity import predicted, told
from tests import commands
from tests.scenarios.questions.test_capacity import SILENT
from tests.scenarios.questions.test_limits_of_jobs import ordinary
from tests.twin.worlds import chain
from twin.errors import BadInput
from twin.profiles import BRISK
from twin.rates.model import RateModel
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate
from twin.spec import parse

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
