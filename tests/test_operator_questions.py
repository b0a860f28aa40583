"""Tests of the page of an operator's questions: commands print what it shows, and answers agree with arithmetic.

Runs are as short as possible; each tolerance of 5 % is the page's, of an answer beside its arithmetic.
"""

from __future__ import annotations

import math
import re
import shlex
from pathlib import Path

import pytest

import streamtwin as st
from scenarios.questions.knobs import knob
from tests.commands import twin

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "operator-questions.md").read_text(encoding="utf-8")
JOBS = ("clicks", "orders", "gateways", "cdc", "fan-out", "hourly", "lte", "exactly-once")


def rate(job: st.Scenario, source: str) -> float:
    return job.workload.arrivals[source].rate_per_s


def service_s(job: st.Scenario, *operators: str) -> float:
    return sum(job.query.operator(name).service_time_s for name in operators)


def busiest(result: st.Result, operator: str) -> float:
    """Share of its time that the operator's busiest subtask works."""
    return result.subtasks.loc[result.subtasks["operator"] == operator, "busy"].max()


def near(value: float):
    return pytest.approx(value, rel=0.05)


def bears(job: st.Scenario) -> float:
    """Factor on the rates that the job bears according to the rate model."""
    return 1 / st.RateModel().answer(job, [job.plan]).offered_pressure.max()


def oldest_s(window_s: float, records: float) -> float:
    """Mean age of the oldest of a Poisson number (at least one) of records when the window ends [s]."""
    return window_s * (1 / (1 - math.exp(-records)) - 1 / records)


def section(name: str) -> str:
    """Story of a job on the page: from its heading to the next one."""
    return PAGE.partition(f"\n## `{name}`")[2].partition("\n## ")[0]


def shown(story: str) -> tuple[list[str], list[str]]:
    """Words of the command that a story shows, without `twin`, and the lines that it shows of what is printed."""
    block = re.findall(r"```sh\n\$ twin (.*?)```", story, re.DOTALL)[0]
    command, *lines = block.splitlines()
    return shlex.split(command), [line for line in lines if line != "..."]


@pytest.mark.parametrize("name", JOBS)
def test_each_job_has_a_story_of_a_question_a_command_its_answer_and_what_to_do(name):
    story = section(name)
    assert re.search(r"^> .*\?$", story, re.MULTILINE)
    words, lines = shown(story)
    assert name in words and lines
    assert all(f"**{part}**" in story for part in ("By hand", "Do", "Picture"))


@pytest.mark.slow
@pytest.mark.parametrize("name", JOBS)
def test_commands_print_what_the_page_shows(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words, lines = shown(section(name))
    printed = iter(line.rstrip() for line in twin(*words).stdout.splitlines())
    assert all(line in printed for line in lines)  # in this order, others between them
    picture = re.search(r"\*\*Picture\*\*: `(.+?)`", section(name))[1]
    assert Path(picture).stat().st_size > 1000


def test_two_of_twelve_partitions_decide_how_many_clicks_are_read():
    job = st.load("clicks")
    result = st.run(job, horizon_s=180)
    arrival, window_s, groups = rate(job, "topic"), 60, 4000
    assert result.keeps_up
    assert result.metrics.e2e_latency_s.mean == near(oldest_s(window_s, arrival * window_s / groups))
    assert result.metrics.throughput_per_s == near(groups / window_s)
    busy = arrival * 2 / 12 * service_s(job, "topic", "parse")
    assert busiest(result, "topic") == near(busy)
    assert bears(job) == near(1 / busy)


def test_twice_the_clicks_need_as_many_subtasks_as_partitions():
    job = st.load("clicks").with_set("workload.arrivals.topic.rate_per_s", 2880)
    turn = knob("subtasks of topic", "--find-min")
    most = {count: bears(turn.turned(job, count)) for count in (6, 8, 11, 12)}
    full = 2880 / 12 * service_s(job, "topic", "parse")
    assert most == {6: near(1 / full / 2), 8: near(1 / full / 2), 11: near(1 / full / 2), 12: near(1 / full)}
    assert most[11] < 1 < most[12]


def test_matches_grow_with_the_square_of_the_load():
    job = st.load("orders")
    window_s, selectivity = 10, 0.0002
    result, twice = st.run(job), st.run(knob("load", "--vary").turned(st.load("orders"), 1.5))
    matches = rate(job, "orders") * rate(job, "payments") * window_s * selectivity
    assert result.metrics.throughput_per_s == near(matches)
    assert twice.metrics.throughput_per_s == near(matches * 1.5**2)
    assert result.metrics.e2e_latency_s.mean == near(window_s * 2 / 3)  # the older of two records, evenly spread
    busy = (rate(job, "orders") + rate(job, "payments")) / 2 * service_s(job, "match")
    assert result.operators.loc["match", "busy"] == near(busy)


def test_what_a_fog_server_saves_on_the_way_to_the_cloud():
    job = st.load("gateways")
    given = st.run(job, horizon_s=60)
    raw_mbps = rate(job, "sensors") * 0.8 * 250 * 8 / 1e6
    assert given.links.loc["fog->cloud", "sent_mbps"] == near(raw_mbps)
    assert given.links.loc["gate-1->fog", "sent_mbps"] == near(raw_mbps / 2)
    fog = st.run(job.with_plan(job.plan.with_placement({**job.plan.placement, "average": ("fog",)})), horizon_s=60)
    assert fog.links.loc["fog->cloud", "sent_mbps"] == near(50 / 5 * 100 * 8 / 1e6)
    core = rate(job, "sensors") / 2 * service_s(job, "sensors", "clean")
    assert given.hosts.loc["gate-1", "cpu"] == near(core)


def test_no_number_of_subtasks_bears_twice_the_changes():
    job = st.load("cdc")
    result = st.run(job, horizon_s=120)
    hot, arrival, one_s = 0.4, rate(job, "changes"), service_s(job, "upsert")
    assert busiest(result, "upsert") == near((hot + 0.1) * arrival * one_s)
    assert bears(job) == near(1 / ((hot + 0.1) * arrival * one_s))
    alone = knob("subtasks of upsert", "--vary").turned(job, 8)
    assert bears(alone) == near(1 / (hot * arrival * one_s))
    assert bears(alone) < 2


def test_the_slow_sink_sets_the_pace_of_the_fast_one():
    job = st.load("fan-out")
    assert st.run(job, horizon_s=60).keeps_up
    over = st.run(job.with_set("workload.arrivals.events.rate_per_s", 2000), horizon_s=120)
    assert not over.keeps_up
    assert over.metrics.throughput_per_s / 2 == near(1500)
    assert bears(job) == near(1500 / rate(job, "events"))


def test_a_checkpoint_and_half_an_interval_make_results_of_exactly_once_sinks_old():
    job = st.load("exactly-once")
    result = st.run(job)
    write_s = 64 * 2_000_000 * 8 / 512e6
    assert result.metrics.e2e_latency_s.mean == near(30 / 2 + write_s)
    assert result.operators.loc["book", "busy"] == near(rate(job, "payments") / 2 * service_s(job, "book"))


def test_all_of_an_hour_is_as_old_as_the_hour_and_its_records_are_the_state():
    job = st.load("hourly")
    result = st.run(job, horizon_s=7200)
    kept = rate(job, "sales") * 0.9
    assert result.metrics.e2e_latency_s.mean == near(oldest_s(3600, kept * 3600 / 500))
    assert result.operators.loc["per-shop", "busy"] == near(kept / 2 * service_s(job, "per-shop"))
    assert bears(job) == near(1 / (kept / 2 * service_s(job, "per-shop")))


def test_what_the_uplink_takes_and_how_long_a_record_is_on_its_way():
    job = st.load("lte")
    given = st.run(job)
    send_s = 1500 * 8 / 8e6
    used = rate(job, "readings") * send_s
    assert given.links.loc["box->cloud", "utilisation"] == near(used)
    assert bears(job) == near(1 / used)
    waits_s = used * send_s / 2 / (1 - used)  # M/D/1
    working_s = service_s(job, "readings", "score", "alarms", "desk")
    assert given.metrics.e2e_latency_s.mean == near(0.045 + 0.005 + send_s + waits_s + working_s)


def test_half_the_bandwidth_takes_what_it_takes():
    over = st.run(st.load("lte").with_set("cluster.links.0.bandwidth_mbps", 4), horizon_s=120)
    assert not over.keeps_up
    assert over.operators.loc["readings", "rate_out_per_s"] == near(4e6 / (1500 * 8))


def test_what_more_subtasks_and_a_faster_store_are_needed_for_more_load():
    hours, paid, copied = st.load("hourly"), st.load("exactly-once"), st.load("fan-out")
    hours = hours.with_set("workload.arrivals.sales.rate_per_s", 400)
    paid = paid.with_set("workload.arrivals.payments.rate_per_s", 480)
    for job, operator, work in ((hours, "per-shop", 360 * 4e-3), (paid, "book", 480 * 5e-3)):
        turn, fewest = knob(f"subtasks of {operator}", "--find-min"), math.ceil(work)
        assert bears(turn.turned(job, fewest)) > 1 > bears(turn.turned(job, fewest - 1))
    copied = copied.with_set("workload.arrivals.events.rate_per_s", 2000)
    assert bears(copied.with_set("query.operators.archive.rate_per_s", 2000)) == near(1)


def test_the_limit_of_a_store_is_what_a_run_names():
    result = st.run("fan-out", horizon_s=60)
    assert "the calls of archive" in result.verdict
    assert float(result.verdict.partition("could bear about ")[2].partition(" ")[0]) == near(1.5)


def test_what_a_failure_leaves_to_catch_up_with():
    """A dry run's time to catch up follows from the backlog and the archive's 1,500 a second; in long runs, too."""
    job = st.load("fan-out")
    answer = st.dry_run(job, fail=["tm-2"], at_s=105, replications=2).result.measures
    behind = rate(job, "events") * (10 + answer["redone_s"].mean)
    assert answer["catch_up_s"].mean == near(10 + behind / (1500 - rate(job, "events")))
    assert answer["lag"].mean < behind
    slow = st.load("hourly").with_set("workload.arrivals.sales.rate_per_s", 20).with_run(horizon_s=7200)
    hours = st.dry_run(slow, fail=["tm-2"], at_s=5005, replications=2).result.measures
    behind = 20 * (10 + hours["redone_s"].mean)
    assert behind / 2 < hours["lag"].mean < behind  # what is read before the period ends is not seen


def test_results_of_a_window_are_no_backlog_of_the_failure_before():
    """Results of a window, which wait for a while each minute, do not count as backlog of an earlier failure."""
    answer = st.dry_run("clicks", fail=["worker-2"], at_s=105, replications=2).result.measures
    behind = 240 * (10 + answer["redone_s"].mean)
    assert answer["catch_up_s"].mean == near(10 + behind / (400 - 240))
