"""`twin dry-run`: effects of a change, and costs of a region's failure, agree with arithmetic."""

from __future__ import annotations

import json

import pytest

from scenarios.executing import Lines, Processes
from scenarios.files import scenario_file
from scenarios.files.scenario_file import set_value
from scenarios.questions.bench import Bench
from scenarios.questions.dry_run import STRAYS, ChangeOptions, dry_run, finer, look, planned, trials
from streamtwin.answers.dry_run import told
from tests.commands import answer, done, refused
from tests.scenarios.questions.jobs import queue, shop
from tests.streamtwin.report_checks import whole, words
from tests.twin.checkpointed import lines
from twin.errors import BadInput
from twin.scenario import RunSettings, Scenario
from twin.spec import parse


def steady(rate_per_s: float = 500, parallelism: int = 1, **run: float) -> Scenario:
    """Job of records at equal distances, each served in a millisecond."""
    data = queue(rate_per_s=rate_per_s, **run).model_dump(mode="json")
    data["workload"]["arrivals"]["in"] = {"law": "constant", "rate_per_s": rate_per_s}
    data["query"]["operators"][1]["service_scv"] = 0
    data["plan"]["placement"]["work"] = {"big": parallelism}
    return Scenario.model_validate(data)


def tried(given: Scenario, change: ChangeOptions, replications: int = 1) -> dict:
    given = finer(given)
    plan = planned(given, change)
    with Bench(Processes(1), of=look(plan.at_s)) as bench:
        return dry_run(bench, given, plan, replications, 1, Lines(lambda _text: None))


@pytest.mark.parametrize(("down_s", "since_s", "rate_per_s"), [(2.0, 1.0, 500), (1.0, 3.0, 250), (3.0, 0.5, 400)])
def test_a_failure_costs_what_arithmetic_says(down_s, since_s, rate_per_s):
    """Down for D, back by s: (D + s) of arrivals wait, and drain at the spare part of 1,000 a second."""
    job = steady(rate_per_s, horizon_s=30, checkpoint_interval_s=10)
    answer = tried(job, ChangeOptions(fail=["big"], at_s=10 + since_s, recover_after_s=down_s))
    known = {name: each.mean for name, each in answer.measures.items()}
    period_s = answer.period_s
    waiting = rate_per_s * (down_s + since_s)
    assert known["pause_s"] == pytest.approx(down_s)
    assert known["lag"] == pytest.approx(waiting, abs=2 * (1000 - rate_per_s) * period_s)
    drained_s = (waiting - STRAYS) / (1000 - rate_per_s)  # fewer that wait may be chance
    assert known["catch_up_s"] == pytest.approx(down_s + drained_s, abs=2 * period_s)
    assert known["twice"] == pytest.approx(rate_per_s * since_s, abs=rate_per_s * 0.1)
    assert known["latency_s"] == pytest.approx(down_s + since_s, rel=0.1)
    assert known["late"] > 0
    assert known["lost"] == 0
    assert answer.keeps_up_without == 1


@pytest.mark.parametrize(("noticed_s", "delay_s", "redeploy_s"), [(0.0, 0.0, 3.0), (1.5, 1.0, 0.5), (2.0, 0.0, 0.0)])
def test_a_failure_takes_as_long_as_the_engine_says(noticed_s, delay_s, redeploy_s):
    job = steady(horizon_s=30).with_set("engine.rescaling", {"how": "restart", "redeploy_s": redeploy_s})
    job = job.with_set("engine.recovery", {"noticed_s": noticed_s, "delay_s": delay_s})
    answer = tried(job, ChangeOptions(fail=["big"], at_s=11))
    assert answer.measures["pause_s"].mean == pytest.approx(noticed_s + delay_s + redeploy_s)
    assert answer.recovery is not None and answer.recovery.sum_s == noticed_s + delay_s + redeploy_s
    parts = next(each for each in told(answer).sentences if each.startswith("the job is deployed again"))
    for what, each_s in (("noticed after", noticed_s), ("restart delay", delay_s), ("deployed in", redeploy_s)):
        assert (what in parts) == (each_s > 0)
    assert tried(job, ChangeOptions(fail=["big"], at_s=11, recover_after_s=1.0)).recovery is None


@pytest.mark.parametrize(("down_s", "since_s", "rate_per_s"), [(2.0, 1.0, 500), (3.0, 0.5, 800)])
def test_what_a_slow_link_has_yet_to_carry_is_not_caught_up(down_s, since_s, rate_per_s):
    """The source reads its backlog at once, and a card sends 1,000 records a second of a kilobyte each."""
    data = steady(rate_per_s, horizon_s=40, checkpoint_interval_s=10).model_dump(mode="json")
    data["query"]["operators"][0]["record_bytes"] = 1000
    data["query"]["operators"][1]["service_time_s"] = 1e-5
    data["cluster"]["hosts"][0]["bandwidth_mbps"] = 8
    data["plan"]["placement"] |= {"work": "small", "out": "small"}
    job = Scenario.model_validate(data).with_set("engine.channel_records", 100_000)
    answer = tried(job, ChangeOptions(fail=["small"], at_s=10 + since_s, recover_after_s=down_s))
    drained_s = rate_per_s * (down_s + since_s) / (1000 - rate_per_s)
    assert answer.measures["catch_up_s"].mean == pytest.approx(down_s + drained_s, rel=0.05)


def test_readers_beyond_the_partitions_are_told_also_after_a_change():
    job = steady(horizon_s=30).model_dump(mode="json")
    job["query"]["operators"][0] |= {"kind": "kafka-source", "partitions": 2}
    restarting = set_value(Scenario.model_validate(job), "engine.rescaling=restart")
    answer = tried(restarting, ChangeOptions(rescale=["in=3"], at_s=12))
    assert any("1 of 3 subtasks read none of its 2 partitions" in line for line in answer.warnings)


def test_what_else_happens_to_the_job_does_not_hide_a_change():
    """A later, longer failure of the job's own does not hide the effects of a change."""
    own = {"kind": "failure", "at_s": 40, "host": "big", "recover_after_s": 6.0}
    job = set_value(steady(horizon_s=80, checkpoint_interval_s=10), f"events=[{own}]")
    answer = tried(job, ChangeOptions(fail=["big"], at_s=11, recover_after_s=2.0))
    assert answer.measures["catch_up_s"].mean == pytest.approx(2.0 + 500 * 3.0 / 500, abs=2 * answer.period_s)
    assert "events of its own (failure at 40 s)" in " ".join(answer.warnings)


def test_what_the_jobs_own_events_cost_is_not_the_changes():
    """A later failure of the job's own, which pauses both runs for 6 s, is no cost of a move, which pauses nothing."""
    own = [{"kind": "failure", "at_s": 20, "host": "big", "recover_after_s": 6.0}]
    job = set_value(steady(horizon_s=40, checkpoint_interval_s=10), f"events={own}")
    known = tried(job, ChangeOptions(migrate=["work=small"], at_s=5)).measures
    assert known["pause_s"].values == (0,)
    assert "restarted" not in known and "redone_s" not in known


def test_a_queue_that_grows_before_its_channels_are_full_is_not_caught_up():
    """A failure's backlog is never caught up at 1,100 records a second for 1,000 that can be served, also with a later
    event of the job's own."""
    for events in ([], [{"kind": "slow-down", "at_s": 35, "host": "small", "factor": 1.1, "duration_s": 1}]):
        job = set_value(steady(1100, horizon_s=40, checkpoint_interval_s=10), f"events={events}")
        answer = tried(job.with_set("engine.channel_records", 100_000), ChangeOptions(fail=["big"], at_s=25), 2)
        assert answer.keeps_up_without == 0
        assert answer.measures["catch_up_s"].values == (None, None)
        assert "in 2 of 2 runs the job does not keep up even without the change" in " ".join(told(answer).sentences)


def test_a_backlog_between_the_periods_of_a_policy_is_seen():
    """A backlog of 2 s without service, back by 1 s, is seen though it is gone before the policy's period ends."""
    job = set_value(steady(horizon_s=40, checkpoint_interval_s=10, period_s=10), "policy={name: ds2}")
    answer = tried(job, ChangeOptions(fail=["big"], at_s=21, recover_after_s=2.0))
    assert answer.measures["lag"].mean == pytest.approx(500 * 3, abs=20)
    assert answer.measures["catch_up_s"].mean == pytest.approx(2 + 500 * 3 / 500, abs=0.1)


@pytest.mark.parametrize(("rate_per_s", "factor"), [(100, 30), (1, 1)])
def test_an_outage_ends_no_sooner_than_its_pause_whatever_waits_at_other_times(rate_per_s, factor):
    """An outage ends no sooner than its pause, beside spikes or in a job that misses just two records."""
    spikes = {"law": "spikes", "rate_per_s": rate_per_s, "factor": factor, "every_s": 20, "duration_s": 1}
    job = set_value(steady(horizon_s=60, checkpoint_interval_s=10), f"workload.arrivals.in={spikes}")
    answer = tried(job, ChangeOptions(fail=["big"], at_s=31, recover_after_s=2.0))
    drained_s = 2.0 + rate_per_s * 3.0 / (1000 - rate_per_s)
    assert answer.measures["catch_up_s"].mean == pytest.approx(drained_s, abs=2 * answer.period_s)
    assert min(answer.measures["catch_up_s"].values) >= 2.0


def test_a_change_that_leaves_other_chances_is_none():
    """A move to an equal host costs nothing: longer queues by other random services are no backlog."""
    job = set_value(queue(900, horizon_s=20), "cluster.hosts.small.cpu_percent=1600")
    answer = tried(job, ChangeOptions(migrate=["work=small"], at_s=8), 4)
    assert max(answer.measures["catch_up_s"].values) < answer.period_s


def test_a_lost_host_is_replaced_or_waited_for():
    """A lost host is replaced (down for 2 s, and back to a checkpoint 1 s before) or waited for to the end."""
    job = steady(horizon_s=20, checkpoint_interval_s=10)
    change = ChangeOptions(fail=["big"], at_s=11, recover_after_s=2.0, lost="spread")
    spread, wait = tried(job, change), tried(job, change._replace(lost="wait", recover_after_s=None))
    assert spread.measures["pause_s"].mean == 2 and spread.measures["catch_up_s"].mean == pytest.approx(5, abs=0.2)
    assert wait.measures["catch_up_s"].values == wait.measures["pause_s"].values == (None,)
    assert "the longest pause is longer than the run" in told(wait).sentences[0]
    assert wait.measures["lag"].mean == pytest.approx(500 * 9, rel=0.02)
    assert (spread.change, wait.change) == (
        "fail big at 11 s, lost: others take its subtasks",
        "fail big at 11 s, lost: the job waits for it to the end",
    )


def test_what_changes_nothing_shows_nothing():
    """A second subtask of a stateless operator costs nothing: no record lost or doubled, hardly any lag."""
    answer = tried(steady(horizon_s=10), ChangeOptions(rescale=["work=2"], at_s=5))
    known = {name: each.mean for name, each in answer.measures.items()}
    assert known["catch_up_s"] == known["twice"] == known["lost"] == 0
    assert known["lag"] < 10


@pytest.mark.parametrize(("how", "again_s"), [("restart", 0.0), ("reactive", 2.0)])
def test_an_engine_that_restarts_pays_for_a_rescaling(how, again_s):
    """A rescaling by restart costs 3 s, and reactive also the records since the checkpoint at 10 s once more."""
    rescaling = {"how": how, "redeploy_s": 3.0}
    job = set_value(steady(500, horizon_s=30), f"engine.rescaling={rescaling}")
    answer = tried(job, ChangeOptions(rescale=["work=2"], at_s=12))
    known = {name: each.mean for name, each in answer.measures.items()}
    waiting = 500 * (3.0 + again_s)
    assert known["pause_s"] == pytest.approx(3.0, abs=0.01)
    assert known["lag"] == pytest.approx(waiting, abs=4 * 1500 * answer.period_s)
    assert known["catch_up_s"] == pytest.approx(3 + waiting / (2000 - 500), abs=2 * answer.period_s)
    assert known["twice"] == known.get("replayed", 0.0) == pytest.approx(500 * again_s, abs=5)
    assert known.get("redone_s", 0.0) == again_s
    assert known["restarted"] == 3


def test_a_job_that_cannot_catch_up_is_said_to_be_behind():
    answer = tried(steady(1500, parallelism=2, horizon_s=10), ChangeOptions(rescale=["work=1"], at_s=4), 2)
    caught = answer.measures["catch_up_s"]
    assert caught.mean is None and caught.values == (None, None)
    assert "in 2 of 2 runs the job has not caught up" in " ".join(told(answer).sentences)
    assert answer.measures["lag"].mean == pytest.approx(500 * 6, rel=0.1)


@pytest.mark.parametrize("rate_per_s", [1500, 2500])
def test_an_overloaded_job_catches_up_only_if_more_subtasks_bear_its_load(rate_per_s):
    """A second subtask catches up with 1,500 a second, not 2,500: one serves 1,000, two 2,000. Of the backlog, a full
    channel is before the first one, which has 250 to spare once the broker is empty."""
    job = steady(rate_per_s, horizon_s=12)
    answer, full = tried(job, ChangeOptions(rescale=["work=2"], at_s=4), 1), job.engine.channel_records
    bears_s = pytest.approx((500 * 4 - full) / 500 + full / 250, abs=0.2)
    assert answer.measures["catch_up_s"].mean == (bears_s if rate_per_s == 1500 else None)
    assert ("the job does not catch up within the run" in told(answer).sentences[0]) is (rate_per_s == 2500)


@pytest.mark.parametrize("change", [ChangeOptions(migrate=["per-page[0]=w-3"]), ChangeOptions(rescale=["per-page=5"])])
def test_a_change_that_is_under_way_at_the_end_has_no_pause_and_no_catching_up(change):
    """A change that takes longer than the run (GB of state at 1 Gbit/s) has no pause and no time to catch up."""
    data = shop(horizon_s=6).model_dump(mode="json")
    data["query"]["operators"][3]["state_bytes_per_group"] = 1e9
    data["cluster"]["hosts"] = [host | {"ram_mb": 1e6} for host in data["cluster"]["hosts"]]
    answer = tried(Scenario.model_validate(data), change, 1)
    assert answer.measures["pause_s"].values == answer.measures["catch_up_s"].values == (None,)
    assert "had not ended at the horizon" in " ".join(answer.warnings)


def test_a_job_that_does_not_keep_up_anyway_is_said_to():
    answer = tried(steady(1500, horizon_s=10), ChangeOptions(fail=["big"], at_s=4, recover_after_s=1))
    assert answer.keeps_up_without == 0
    assert "does not keep up even without" in " ".join(told(answer).sentences)


def test_state_takes_time_to_move():
    answer = tried(shop(horizon_s=9), ChangeOptions(migrate=["per-page[0]=w-3"]))
    assert answer.at_s == 4.33
    assert answer.measures["pause_s"].mean > 0
    assert answer.measures["moved_mb"].mean > 0


def test_options_become_events():
    job = shop()
    change = ChangeOptions(["per-page=6", "human=w-2,w-3"], ["match=w-3", "per-page[1]=w-3"], ["edge-1"], 5.0, 2.0)
    events = planned(job, change).scenario.events
    assert [each.kind for each in events] == ["scale", "scale", "migration", "migration", "failure"]
    assert events[0].placement == ("w-1", "w-1", "w-2", "w-2", "w-3", "w-3")
    assert events[1].placement == ("w-2", "w-3")
    assert (events[3].subtask, events[3].to) == (1, "w-3")
    assert {each.at_s for each in events} == {5.0}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (ChangeOptions(), "nothing to try"),
        (ChangeOptions(rescale=["per-pag=4"]), "did you mean 'per-page'"),
        (ChangeOptions(rescale=["per-page"]), "write OPERATOR=4"),
        (ChangeOptions(rescale=["per-page=0"]), "give a whole number from 1"),
        (ChangeOptions(rescale=["orders=2"]), "is a source"),
        (ChangeOptions(migrate=["match=w-2"]), "it is there already"),
        (ChangeOptions(migrate=["match=w-9"]), "unknown host 'w-9'"),
        (ChangeOptions(migrate=["match[7]=w-3"]), "has no subtask 7"),
        (ChangeOptions(fail=["w-9"]), "unknown host"),
        (ChangeOptions(fail=["w-1"], at_s=99), "not within the run"),
        (ChangeOptions(fail=["w-1"], at_s=1), "end of the warm-up"),
        (ChangeOptions(fail=["w-1"], recover_after_s=0), "recover_after_s"),
        (ChangeOptions(fail=["w-1"], lost="spred"), "did you mean 'spread'"),
        (ChangeOptions(rescale=["human=2"], lost="wait"), "give --fail HOST"),
    ],
)
def test_what_cannot_be_tried_is_refused(change, said):
    with pytest.raises(BadInput, match="(?i)" + said.replace("[", r"\[")):
        planned(shop(), change)


def test_the_command_answers_keeps_and_reports(tmp_path):
    job = tmp_path / "job.yaml"
    job.write_text(scenario_file.dump(steady(horizon_s=10)))
    asked = ["dry-run", job, "--fail", "big", "--at", 4, "--recover-after", 1, "--replications", 2, "--workers", 1]
    document = answer(*asked, "--out", tmp_path / "a")
    assert document == json.loads((tmp_path / "a" / "answer.json").read_text())
    assert document["change"] == "fail big at 4 s"
    done("report", tmp_path / "a", "--out", tmp_path / "a.html")
    assert "the longest pause is 1.00 s" in words(whole((tmp_path / "a.html").read_text()))
    assert "nothing to try" in refused("dry-run", job)
    assert "at least 2 runs" in refused("dry-run", job, "--fail", "big", "--replications", 1)


def job(**checkpoints: object) -> Scenario:
    """Job of two lines of 100 records a second, each served in five milliseconds."""
    settings = RunSettings(horizon_s=26, period_s=1)
    data = dict(Scenario.of(lines(2, service_s=5e-3), settings))
    return parse(Scenario, data | {"checkpoints": {"interval_s": 4, "first_s": 4, "sync_ms": 0} | checkpoints})


def test_a_region_costs_its_part_of_what_the_job_costs() -> None:
    """A region's failure costs its part: down for 2 s, back by 1 s, 3 s x 100 records wait of one of two lines."""
    answer = tried(job(), ChangeOptions(fail=["h1"], at_s=13, recover_after_s=2, failover="both"))
    region, full, saved = (
        {name: each.mean for name, each in getattr(answer, part).items()} for part in ("measures", "full", "saved")
    )
    assert (region["restarted"], full["restarted"], saved["restarted"]) == (3, 6, 3)
    assert (region["redone_s"], full["redone_s"], saved["redone_s"]) == (1, 1, 0)
    assert region["lag"] == pytest.approx(300, abs=20)
    assert full["lag"] == pytest.approx(600, abs=40)
    assert region["catch_up_s"] == pytest.approx(2 + 300 / (200 - 100), abs=0.3)
    assert region["twice"] == pytest.approx(100, abs=5)
    assert full["twice"] == pytest.approx(200, abs=10)
    assert region["latency_s"] == pytest.approx(3, rel=0.05)
    title = told(answer).tables[0].title
    assert "fail h1 at 13 s" in str(title)


@pytest.mark.parametrize("costing", [True, False])
def test_when_nobody_says_when_it_is_anywhere_in_an_interval(costing: bool) -> None:
    """Without a time, failures are spread over a checkpoint interval, so that half of it is done again on average,
    whatever checkpoints cost and whenever they begin; at a given time the work is the same in all runs."""
    given = job() if costing else Scenario.of(lines(2), RunSettings(horizon_s=26, period_s=1, checkpoint_interval_s=4))
    change = ChangeOptions(fail=["h1"], recover_after_s=1)
    plan = planned(finer(given), change)
    assert "at times from 8.67 to 12.67 s" in plan.words
    first_s = given.checkpoints.first_s if costing else 0.0
    since_s = [(trial.at_s - first_s) % 4.0 for trial in trials(plan, 4, 0)]
    assert since_s == pytest.approx([0.5, 1.5, 2.5, 3.5])
    assert all(plan.at_s <= trial.at_s < plan.at_s + 4.0 for trial in trials(plan, 4, 0))
    answer = tried(given, change, 2)
    assert answer.measures["redone_s"].values == pytest.approx((1, 3))
    if costing:
        answer = tried(job(first_s=None), change, 2)
        assert answer.measures["redone_s"].values == pytest.approx((1, 3))
    assert tried(given, change._replace(at_s=13.0), 2).measures["redone_s"].values == (1, 1)


def test_a_short_run_leaves_half_of_its_rest_to_catch_up() -> None:
    plan = planned(finer(job().with_run(horizon_s=9)), ChangeOptions(fail=["h1"]))
    assert (plan.at_s, plan.spread_s) == (3.0, 3.0)


def test_a_job_that_waits_to_the_end_does_nothing_again() -> None:
    """A job that waits to the end restarts nothing: no result comes twice, no work is done again, no recovery."""
    change = ChangeOptions(fail=["h1"], at_s=13, lost="wait")
    known = {name: each.mean for name, each in tried(job(), change).measures.items()}
    assert (known["twice"], known.get("restarted", 0), known.get("redone_s", 0)) == (0, 0, 0)
    assert known["pause_s"] is None
    assert planned(finer(job()), change).words == "fail h1 at 13 s, lost: the job waits for it to the end"
    with pytest.raises(BadInput, match="--recover-after: with --lost wait the job never runs again"):
        planned(finer(job()), change._replace(recover_after_s=5))


@pytest.mark.slow
def test_exactly_once_pays_in_latency_instead_of_doubles() -> None:
    """Exactly once has no doubles but latency: back from 15 s to 12 s, up at 18 s, behind 600 records of 5 ms."""
    answer = tried(job(sinks="exactly-once"), ChangeOptions(fail=["h1"], at_s=15, recover_after_s=3))
    known = {name: each.mean for name, each in answer.measures.items()}
    assert known["twice"] == 0
    assert known["latency_s"] == pytest.approx(18 + 600 * 5e-3 - 12, abs=0.2)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (ChangeOptions(fail=["h1"], failover="regions"), "did you mean 'region'"),
        (ChangeOptions(migrate=["m[0]=h1"], failover="full"), "give --fail HOST"),
    ],
)
def test_what_cannot_be_is_refused(change: ChangeOptions, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        planned(job(), change)


def test_without_checkpoints_there_are_no_regions() -> None:
    with pytest.raises(BadInput, match="has no checkpoints"):
        planned(Scenario.of(lines(2)), ChangeOptions(fail=["h1"], failover="both"))


@pytest.mark.slow
def test_the_command_puts_both_side_by_side(tmp_path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(scenario_file.dump(job().with_run(horizon_s=12)))
    asked = ["dry-run", file, "--fail", "h1", "--recover-after", 1, "--replications", 2, "--workers", 1]
    assert answer(*asked, "--failover", "both")["full"]["restarted"]["mean"] == 6
    assert "did you mean" in refused(*asked, "--failover", "ful")
