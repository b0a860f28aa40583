"""Comparison of policies: measures agree with the runs, random numbers are common, errors give remedies."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from scenarios.files import scenario_file
from scenarios.files.scenario_file import set_value
from scenarios.measures import measures
from scenarios.questions.bench import Samples, Wanted
from scenarios.questions.kept import RunOutcome
from scenarios.questions.policies_compared import (
    MEANINGS,
    control_measures,
    course,
    judged,
    late,
    oscillations,
    variants,
)
from scenarios.questions.whatif import answer
from streamtwin.answers.comparison import changes
from tests.commands import refused, twin
from tests.scenarios.questions.jobs import shop
from twin.events import Migration, Scale
from twin.histograms import bucket
from twin.simulation import simulate

JOB = shop()
MAIN = "workload.arrivals.clicks.rate_per_s"


def test_what_waits_and_what_is_paid_for_are_sums_over_the_periods():
    """Backlogs and subtask-seconds are sums over periods: nine subtasks, which bear 2,000 of 3,000, then ten."""
    scale = Scale(at_s=6.0, operator="human", placement=("w-1", "w-3"))
    made = simulate(scenario_with_rate(3000).with_events(scale))
    found = control_measures(made, JOB, slo_s=1.0)
    assert found["subtask_seconds"] == pytest.approx(9 * 4 + 10 * 6)
    backlogs = [sum(r["backlog"] or 0 for r in made.operator_rows if r["period"] == k) for k in range(2, 12)]
    assert found["backlog.mean"] == pytest.approx(sum(backlogs) / 10)
    assert found["backlog.peak"] == max(backlogs) > 1000
    assert (found["rescalings"], found["migrations"], found["oscillations"]) == (1, 0, 0)
    steps = course(made)
    assert steps["at_s"] == [float(k) for k in range(1, 13)]
    assert steps["subtasks"] == [9.0] * 6 + [10.0] * 6
    assert steps["backlog"][2:] == backlogs


def test_an_engine_that_restarts_stands_still_for_what_a_policy_orders():
    """A policy's rescaling stops a restarting engine for 2 s each, and a live one not at all."""
    job = set_value(scenario_with_rate(3000), "policy={name: ds2, calm_periods: 100}")  # so that nothing shrinks
    found = []
    for how in ("live", "{how: restart, redeploy_s: 2}"):
        tried = set_value(job, f"engine.rescaling={how}")
        found.append(control_measures(simulate(tried), tried))
    live, restarted = found
    assert live["downtime_s"] == 0 < live["rescalings"]
    assert restarted["downtime_s"] >= 2 * restarted["rescalings"] > 0
    assert restarted["backlog.peak"] > live["backlog.peak"]


@pytest.mark.parametrize(
    ("policy", "first_s"),
    [("flink-autoscaler", 20), ("{name: flink-autoscaler, metrics_window_periods: 7}", 12), ("monitoring", 3)],
)
def test_a_policy_that_had_no_time_to_act_says_so(policy, first_s):
    """A policy warns of runs too short for it: Flink's autoscaler waits for 5 periods, then for a window of 15."""
    for horizon_s, noted in ((first_s, True), (first_s + 1, False)):
        asked = set_value(set_value(JOB, f"policy={policy}"), f"run.horizon_s={horizon_s}")
        told = [line for line in simulate(asked).warnings if line.startswith("policy ")]
        assert bool(told) == noted, told
        if noted:
            assert f"can change nothing before {first_s} s" in told[0] and f"horizon is {horizon_s} s" in told[0]


def test_a_change_from_nothing_is_told_in_its_unit():
    """A change from 0 (no downtime without a policy) is given in the metric's unit."""
    asked = variants(JOB, ["none,ds2"])
    known = measures(simulate(JOB))
    outcomes = [[RunOutcome({**known, "downtime_s": stop}) for stop in stops] for stops in ((0, 0), (6.4, 6.6))]
    found = answer(asked, ["downtime_s"], Wanted(2), 1, Samples(outcomes))
    assert found.variants[1].metrics["downtime_s"].significant
    assert list(changes(found))[1] == (
        "downtime_s: significantly higher in 'ds2' (+6.5 ± 1.3), the only significant change."
    )


def scenario_with_rate(rate: float):
    return set_value(JOB, f"{MAIN}={rate}")


def test_results_are_late_by_their_own_latencies():
    """The share of late results is by their histogram: of 100 at 0.1 s and 300 at 2 s, three in four are above 1 s."""
    row = {"kind": "sink", "e2eLatencyBuckets": [bucket(0.1), bucket(2.0)], "e2eLatencyCounts": [100, 300]}
    assert late([[row], [{"kind": "map"}]], 1.0) == 0.75
    assert late([[row]], 3.0) == 0.0 and late([[row]], 0.01) == 1.0 and late([], 1.0) == 0.0


def test_an_slo_that_is_never_or_always_kept():
    found = [judged(JOB, 1, slo_s).measures for slo_s in (1e-4, 100.0)]
    assert [(each["slo.late"], each["slo.violated"]) for each in found] == [(1.0, 1.0), (0.0, 0.0)]
    assert "slo.late" not in judged(JOB, 1, None).measures


def scaled(before: int, after: int, operator: str = "human") -> dict:
    return {"kind": "scale", "component": operator, "detail": {"before": before, "after": after}}


def moves(group: int, **to: object) -> dict:
    return {"kind": "migration", "component": "per-page", "detail": {"key_groups": [group], **to}}


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([scaled(1, 2), scaled(2, 4)], 0),
        ([scaled(1, 2), scaled(2, 1), scaled(1, 2)], 2),
        ([scaled(1, 2), scaled(3, 2, "match")], 0),
        ([moves(0, to_subtask=2)], 0),
        ([moves(0, to_subtask=2), moves(0, to_subtask=0)], 1),
        ([moves(0, to_subtask=2), moves(0, to="w-1")], 1),
        ([moves(0, to_subtask=2), moves(1, to_subtask=0)], 0),
        ([moves(0, to_subtask=2), {**scaled(4, 5, "per-page")}, moves(0, to_subtask=0)], 0),
        ([moves(0, to_subtask=2, refused="no"), moves(0, to_subtask=0)], 0),
    ],
)
def test_oscillations_take_back_the_change_before(events, expected):
    """Oscillations are changes that take back the one before. Key group 0 is on subtask 0, on w-1, at first."""
    assert oscillations(events, JOB) == expected


def test_oscillations_of_a_run():
    there = Migration(at_s=4.0, operator="match", subtask=0, to="w-3")
    made = simulate(JOB.with_events(there, there.model_copy(update={"at_s": 7.0, "to": "w-2"})))
    found = control_measures(made, JOB)
    assert (found["migrations"], found["oscillations"]) == (2, 1) and found["moved_mb"] > 0


def test_what_the_run_ended_before_has_moved_nothing():
    late = Migration(at_s=JOB.run.horizon_s - 0.5, operator="match", subtask=0, to="w-3")
    made = simulate(JOB.with_set("engine.rescaling", "restart").with_events(late))
    found = control_measures(made, JOB)
    assert (found["migrations"], found["oscillations"]) == (0, 0)


def test_policies_come_with_options_and_each_once():
    found = variants(JOB, ["ds2,none", "{name: ds2, margin: 0.1}, ds2"])
    assert [each.label for each in found] == ["ds2", "none", "ds2 (margin 0.1)"]
    assert found[1].scenario.policy is None and found[2].scenario.policy.margin == 0.1


@pytest.mark.slow
def test_one_command_one_table(tmp_path: Path):
    path = tmp_path / "shop.yaml"
    path.write_text(scenario_file.dump(scenario_with_rate(3000)))
    words = ["compare-policies", path, "--policies", "none,ds2", "--slo", "500ms", "--replications", 2]
    done = twin(*words, "--out", tmp_path / "a", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    none, ds2 = document["variants"]
    assert set(none["metrics"]) == set(MEANINGS)
    assert ds2["metrics"]["backlog.mean"]["mean"] < none["metrics"]["backlog.mean"]["mean"]
    assert ds2["metrics"]["rescalings"]["difference"] > 0
    assert len(ds2["course"]["at_s"]) == len(ds2["course"]["subtasks"]) == 12
    assert none["course"]["subtasks"] == [9.0] * 12 != ds2["course"]["subtasks"]
    rows = list(csv.DictReader((tmp_path / "a" / "table.csv").open()))
    assert len(rows) == 2 * len(MEANINGS)
    assert (tmp_path / "a" / "figure.png").read_bytes()[:4] == b"\x89PNG"
    kept = json.loads((tmp_path / "a" / "runs.jsonl").read_text().splitlines()[0])
    assert len(kept["course"]["backlog"]) == 12
    again = twin(*words, "--out", tmp_path / "a")
    assert "all known already" in again.stderr and "oscillations" in again.stdout and "*" in again.stdout
    assert "results later than 500 ms" in again.stdout
    assert twin(*words[:-2], "--out", tmp_path / "a", "--slo", "1s").returncode == 2


def test_what_cannot_be_compared_is_refused(tmp_path: Path):
    ask = ("compare-policies", "rush-hour-scaling")
    assert "nothing to compare" in refused(*ask)
    assert "nothing to compare" in refused(*ask, "--policies", "ds2,ds2")
    assert "did you mean 'ds2'" in refused(*ask, "--policies", "none,ds3")
    assert "did you mean 'margin'" in refused(*ask, "--policies", "none,{name: ds2, margn: 0.1}")
    assert "moves key groups" in refused(*ask, "--policies", "none,balance")
    assert "unknown policy" in refused(*ask, "--policies", "none,[ds2]")
    assert "unknown policy" in refused(*ask, "--policies", "none,{margin: 0.1}")
    assert "write it as in 500ms" in refused(*ask, "--policies", "none,ds2", "--slo", "soon")
    assert "write 500ms or 500s" in refused(*ask, "--policies", "none,ds2", "--slo", "500")
    for none in ("0", "0s", "-5s"):
        assert f"--slo {none}: not a duration" in refused(*ask, "--policies", "none,ds2", "--slo", none)
    assert "at least 2 runs" in refused(*ask, "--policies", "none,ds2", "--replications", 1)
