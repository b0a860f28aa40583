"""Tests of the benchmark on Nexmark: queries, points, predictions, events, and the scenarios that are made of them."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from benchmarks.real.nexmark import __main__ as program
from benchmarks.real.nexmark import events, judging, measuring
from benchmarks.real.nexmark.judging import FORM, Figure, Prediction, calibrated, predicted
from benchmarks.real.nexmark.library import LIGHT, light_of, scenario_of
from benchmarks.real.nexmark.measuring import AGES, MARKERS, SOURCE, read
from optimizers.objectives import at_rate
from scenarios.files.scenario_file import dump, parse_scenario
from tests.streamtwin.importers.flink_cluster import written
from tests.streamtwin.importers.test_flink_sql import answers
from twin.errors import BadInput
from twin.spec import parse

# the benchmark -------------------------------------------------------------------------------------------------------
# Nexmark on a real Flink: its queries and options are read, and a measured folder is judged, without a Flink.


FACTORIES = re.compile(r"class (\w+Factory)\b")


def point(folder: Path, saved: str, rate: float) -> Path:
    """Folder as it is measured, of q11 as a live Flink answered, whose results are 4, 5 and 6 s old in the window."""
    folder.parent.mkdir(exist_ok=True)
    written(folder, answers(saved))
    about = {"rate_per_s": rate, "start_s": 1000.0, "window_s": [20.0, 30.0], "collecting": 0.02, "cores": 2, "load": 1}
    (folder / "run.json").write_text(json.dumps(about))
    vertices = [each["id"] for each in answers(saved)["job_jobs_id.json"]["vertices"]]
    (folder / MARKERS).write_text(json.dumps({vertices[0]: {}, vertices[1]: {"p50_s": 0.006, "p95_s": 0.041}}))
    (folder / f"{AGES}.0").write_text("1010000,5, 1 1 1\n1021000,8, 4000 5000 6000\n1040000,9, 9000\n")
    return folder


POINTS = ((9200.0, "q11-10000"), (36_800.0, "q11-40000"), (184_000.0, "q11-40000"))
"""Two light loads, and one that is offered much more than it takes."""
ASKED = measuring.query("q11").model_copy(update={"knee_per_s": 92_000.0})


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Prediction:
    folder = tmp_path_factory.mktemp("light")
    light = [read(point(folder / f"{rate:g}", saved, rate)) for rate, saved in POINTS[:2]]
    return predicted(light, ASKED, [184_000.0, 460_000.0])


@pytest.fixture
def case(said: Prediction, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> program.Case:
    """Measured case."""
    monkeypatch.setattr(measuring, "query", lambda _: ASKED)
    (found,) = program.cases_of(tmp_path, "q11", "1")
    for rate, saved in POINTS:
        point(found.at(rate), saved, rate)
    assert list(said.beyond) == found.rates(program.BEYOND)
    (found.folder / program.PREDICTION).write_bytes(FORM.dump_json(said))
    assert found.said() == said, "what is written is what is read"
    return found


def test_a_measured_query_is_predicted_and_judged(case: program.Case, capsys: pytest.CaptureFixture[str]) -> None:
    said, light = case.said(), read(case.at(9200.0))
    assert said is not None and said.knee_per_s is not None
    for rate, state in said.beyond.items():
        assert state.delivered_per_s == pytest.approx(min(rate, said.knee_per_s), rel=0.05), "no more than its knee"
    last = light.job.scenario.query.topological[-1].name
    assert all(state.backpressured[last] == 0.0 for state in said.beyond.values()), "nothing is behind it"
    assert light.ages_s.tolist() == [4.0, 5.0, 6.0], "only what is written in the window"
    knee = case.beyond
    assert knee is not None and judging.is_beyond(knee) and not judging.is_beyond(light)
    rows = {each.what: each for each in judging.figures(said, light, knee)}
    assert rows["knee"].measured == knee.delivered_per_s == knee.rows[SOURCE]["out_per_s"]
    assert rows["50% of ages of results, offered 9,200/s"].measured == float(np.median(light.ages_s))
    program.show([case])
    shown = capsys.readouterr().out
    assert "q11-1: bids in a session of a bidder" in shown and "knees, events/s" in shown
    assert all(each.what in shown for each in rows.values())


def test_a_case_goes_on_where_it_was_cut_short(case: program.Case, capsys: pytest.CaptureFixture[str]) -> None:
    program.measured([case], program.QUICK)
    assert not capsys.readouterr().out, "it is measured"
    case.at(184_000.0).rename(case.folder / "aside")
    assert case.beyond is None
    program.show([case])
    assert "q11-1: not measured" in capsys.readouterr().out


def test_what_is_not_predicted_says_why(case: program.Case, capsys: pytest.CaptureFixture[str]) -> None:
    (case.folder / program.PREDICTION).write_text('{"refused": "points contradict each other"}')
    assert case.said() is None
    program.show([case])
    assert "points contradict each other" in capsys.readouterr().out


def test_errors_are_relative_and_differences_of_shares() -> None:
    assert Figure("knee", "events/s", 120.0, 100.0).error == pytest.approx(0.2)
    assert Figure("busy", "", 0.9, 1.0, is_share=True).error == pytest.approx(-0.1)
    assert Figure("busy", "", 0.0, 0.0, is_share=True).error == 0.0
    unknown = (
        Figure("knee", "events/s", None, 1.0),
        Figure("knee", "events/s", 1.0, None),
        Figure("it", "s", 1.0, 0.0),
    )
    assert [each.error for each in unknown] == [None, None, None]


RATE, START_S = 100.0, 1000.0


def watched(folder: Path, kind: events.Kind, taken: list[tuple[float, int]], **stamps_s: float) -> events.Course:
    """Course of a job whose event comes 10 s after its first record. taken: when which event was taken, s after it."""
    folder.mkdir()
    about = {"kind": kind, "start_s": START_S, "rate_per_s": RATE, "event_s": START_S + 10, "saved_s": 0.5}
    stamps = {name: 1000 * (START_S + at_s) for name, at_s in stamps_s.items()}
    lasted = [{"CREATED": 100, "DEPLOYING": 200, "RUNNING": 5000}, {"SCHEDULED": 700, "RUNNING": 4000}]
    details = [{"subtasks": [{"status-duration": each}]} for each in lasted]
    for name, answer in ((events.ABOUT, about), (events.JOB, {"timestamps": stamps}), (events.DETAILS, details)):
        (folder / name).write_text(json.dumps(answer))
    lines = "".join(f"{1000 * (START_S + at_s):.0f},{number}\n" for at_s, number in taken)
    (folder / f"{events.TAKEN}.0").write_text(lines)
    return events.measured(folder)


def test_a_course_is_told_by_when_which_event_was_taken(tmp_path: Path) -> None:
    """Down from 10 to 14 s, then back to the 800th event, with all that is due at once, and as before from 15 s on."""
    before = [(each / 10, each * 10) for each in range(1, 100)]
    after = [(14.0, 800), (14.5, 1300), (15.0, 1500), (16.0, 1600)]
    found = watched(tmp_path / "a", "killed", [*before, *after], RESTARTING=11.5, RUNNING=12.5)
    assert (found.noticed_s, found.delay_s, found.deployed_s) == (1.5, 1.0, 0.7)
    assert found.down_s == pytest.approx(14.0 - 9.9) and found.oldest_s == pytest.approx(14.0 - 8.0)
    assert found.caught_up_s == pytest.approx(4.5) and found.replayed == 990 - 800
    went_on = watched(tmp_path / "b", "rescaled", [*before, (11.0, 1000), (11.1, 1110)], RUNNING=10.5)
    assert (went_on.noticed_s, went_on.saved_s, went_on.replayed) == (None, 0.5, 0.0)
    assert went_on.down_s == pytest.approx(1.1) and went_on.caught_up_s == pytest.approx(1.0)
    rows = events.figures("rescaled", None, went_on)
    assert "rescaled: noticed after" not in {each.what for each in rows} and all(
        each.predicted is None for each in rows
    )


def test_what_the_twin_says_of_a_failure_is_the_sum_of_its_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "dry_run", partial(events.dry_run, replications=2))
    light = [read(point(tmp_path / f"{rate:g}", saved, rate)) for rate, saved in POINTS[:2]]
    found = events.predicted(at_rate(calibrated(light, light[0]), 0.01))
    assert events.FORM.validate_json(events.FORM.dump_json(found)) == found
    killed = found["killed"]
    assert None not in (killed.noticed_s, killed.delay_s, killed.deployed_s, killed.down_s)
    assert killed.noticed_s + killed.delay_s + killed.deployed_s == pytest.approx(killed.down_s)
    assert killed.caught_up_s >= killed.down_s and killed.replayed > 0
    assert found["rescaled"].down_s < killed.down_s and not found["rescaled"].replayed


@pytest.mark.parametrize("name", measuring.names())
def test_statements_of_a_query_are_whole(name: str) -> None:
    text = measuring.statements(name, [(1000.0, 0.0), (4000.0, 80.0)], 5, 2, Path("/folder/ages"))
    assert "'rate' = '1000.000000@0,4000.000000@80'" in text
    parts = [each.strip() for each in re.split(r";\s*\n", text) if each.strip()]
    assert [each.split()[0] for each in parts] == ["CREATE"] * (len(parts) - 1) + ["INSERT"]
    assert "{" not in text and text.count("(") == text.count(")")
    asked = measuring.query(name)
    if asked.ages:
        column = int(re.findall(r"'column' = '(-?\d+)'", text)[0])
        assert list(asked.columns)[column] == asked.ages


def test_options_are_checked() -> None:
    found = program.cases_of(Path("runs"), "q0, q11", "1,2")
    assert [each.name for each in found] == ["q0-1", "q0-2", "q11-1", "q11-2"]
    for asked, parallelism, words in (("q6", "1", "no 'q6'"), ("q0", "0", "'0' is no number"), ("q0", "x", "'x'")):
        with pytest.raises(BadInput, match=words):
            program.cases_of(Path("runs"), asked, parallelism)
    given = {"says": "x", "knee_per_s": 1.0, "columns": {"price": "BIGINT"}, "ages": "price", "select": "SELECT 1"}
    with pytest.raises(BadInput, match="'price' is no column of type TIMESTAMP"):
        parse(measuring.Query, given, "q99")


def test_the_factories_are_those_of_the_java_file() -> None:
    named = [each.partition("$")[2] for each in program.FACTORIES]
    assert sorted(FACTORIES.findall(program.SOURCE.read_text())) == sorted(named)


def test_a_prediction_without_checkpoints_is_read_back() -> None:
    said = Prediction(None, "", {}, {}, None, None, None)
    assert FORM.validate_json(FORM.dump_json(said)) == said


# scenarios for the library -------------------------------------------------------------------------------------------
# Scenarios of the library that are made of measured queries of Nexmark.


def test_a_scenario_of_the_library_is_the_imported_job_at_its_calibrated_costs(tmp_path: Path) -> None:
    for rate, saved in POINTS:
        point(tmp_path / f"{rate:.0f}", saved, rate)
    light = light_of(tmp_path)
    assert [each.rate_per_s for each in light] == [rate for rate, _ in POINTS[:LIGHT]]
    made, job = scenario_of("q11", light, "a machine"), light[0].job.scenario
    assert made.name == "nexmark-q11" and "on a machine with Flink" in made.description
    assert [(each.name, each.kind) for each in made.query.operators] == [
        (each.name, each.kind) for each in job.query.operators
    ]
    assert made.workload == job.workload and made.plan.fused == job.plan.fused
    for fitted in calibrated(light, light[0]).query.operators:
        own = made.query.operator(fitted.name)
        assert own.service_time_s == pytest.approx(fitted.service_time_s, rel=0.005), "rounded to three digits"
    assert parse_scenario(dump(made), "text") == made
    assert "grows without bound" not in made.description, "sessions end"


def test_a_query_that_is_not_measured_has_no_scenario(tmp_path: Path) -> None:
    rate, saved = POINTS[0]
    point(tmp_path / f"{rate:.0f}", saved, rate)
    with pytest.raises(BadInput, match=f"has 1 of the {LIGHT} loads"):
        light_of(tmp_path)
