"""A shadow's beliefs, forecasts and advice, against the job that its metrics are of."""

from __future__ import annotations

import json

import pytest

from scenarios.files.documents import document, read
from scenarios.questions import kept
from streamtwin.connect import belief as tables
from streamtwin.connect.belief import Window, believed, of_rows, parsed, rows_of, trend, windows_of
from streamtwin.connect.shadow import AlertRow, ForecastRow, JobFollowed, Shadow
from streamtwin.connect.shadow import followed as told_by
from streamtwin.export import MetricSample
from streamtwin.questions.shadow import FollowJob
from streamtwin.report import answer_page
from tests.commands import done, refused
from tests.scenarios.questions.jobs import host
from tests.streamtwin.shadow_jobs import (
    BY_PER_S2,
    FROM_PER_S,
    SERVICE_S,
    WINDOW_S,
    crossing,
    series_of,
    steady,
    write_metrics,
)
from twin.errors import BadInput
from twin.scenario import Scenario
from twin.simulation import simulate
from twin.spec import parse

FULL_AT_S = (1 / (2 * SERVICE_S) - FROM_PER_S) / BY_PER_S2


@pytest.fixture(scope="module")
def followed(tmp_path_factory):
    """Shadow's folder and series for the first 50 s of a job that is full after 60 s."""
    folder = tmp_path_factory.mktemp("shadow")
    series = series_of(write_metrics(crossing(), folder / "metrics"))
    Shadow(crossing(), folder / "out", WINDOW_S, 60.0, 10).told(series)
    return folder / "out", series


def test_backpressure_is_foreseen_when_it_will_come(followed):
    forecasts = tables.read(followed[0], tables.FORECASTS, ForecastRow)
    assert [row.end_s for row in forecasts] == [10.0, 20.0, 30.0, 40.0, 50.0]
    assert [row.backpressure_in_s for row in forecasts[:3]] == [None] * 3  # no trend can be told yet
    for row in forecasts[3:]:
        assert row.rates["in"].slope_per_s2 == pytest.approx(BY_PER_S2, rel=0.05)
        assert row.end_s + row.backpressure_in_s == pytest.approx(FULL_AT_S, rel=0.05)


def test_the_move_that_is_advised_avoids_it_when_the_job_goes_on(followed):
    alerts = tables.read(followed[0], tables.ALERTS, AlertRow)
    assert len(alerts) == 2
    for alert in alerts:
        (move,) = alert.moves
        assert alert.avoids and alert.simulated_as_it_is and not alert.simulated_moved
        assert move.operator in ("parse", "rate") and move.before == ("small",)
        assert "avoids it, as it does in the simulator" in alert.words
    until = crossing().with_run(horizon_s=alerts[-1].end_s + alerts[-1].ahead_s - 10, warmup_s=70)
    places = dict(until.plan.model_dump(mode="json")["placement"])
    moved = crossing(plan={"placement": places | {move.operator: move.after}}).with_run(**dict(until.run))
    assert simulate(until).metrics.backpressured
    assert not simulate(moved).metrics.backpressured


def test_its_answer_has_a_row_for_each_forecast_and_says_that_it_is_one(followed):
    answer = read(JobFollowed, json.dumps(document(told_by("crossing", followed[0]))))
    presentation = FollowJob.told()(answer)
    forecasts = tables.read(followed[0], tables.FORECASTS, ForecastRow)
    assert [row["pressure_then"] for row in presentation.rows] == [row.pressure_then for row in forecasts]
    assert answer.windows == len(forecasts) and answer.last == forecasts[-1]
    assert f"{forecasts[-1].pressure_then:.0%} then" in presentation.sentences[0]
    assert "predicted" in presentation.numbers and presentation.figure is not None
    now, then = presentation.figure().axes[0].lines
    assert [*now.get_xdata() + 60.0] == [*then.get_xdata()]


def test_before_the_first_window_its_answer_is_kept_as_well(tmp_path):
    answer = told_by("crossing", tmp_path)
    presentation = FollowJob.told()(answer)
    assert presentation.figure is None and "no window is complete yet" in presentation.sentences[0]
    kept.opened(tmp_path / "out", {"command": "shadow"})
    kept.write(tmp_path / "out", document(answer), presentation.rows, None)
    assert "no window is complete yet" in answer_page(tmp_path / "out")


def test_windows_that_are_told_again_leave_the_same_files(followed, tmp_path):
    out, series = followed
    before = {path: path.read_bytes() for path in out.rglob("*.jsonl")}
    twin = Shadow(crossing(), out, WINDOW_S, 60.0, 10)
    twin.told([each for each in series if each.start_s >= 20])
    assert {path: path.read_bytes() for path in out.rglob("*.jsonl")} == before
    one_by_one = Shadow(crossing(), tmp_path, WINDOW_S, 60.0, 10)
    for start_s in sorted({each.start_s for each in series}):
        one_by_one.told([each for each in series if each.start_s == start_s])
    assert {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*.jsonl")} == {
        path.relative_to(out): content for path, content in before.items()
    }


def test_a_call_that_keeps_its_subtask_busy_is_no_cpu():
    given = steady(200).model_dump(mode="json")
    law = {"kind": "async", "latency_s": 0.004, "capacity": 1, "ordered": True}
    given["query"]["operators"][2] = {"name": "rate", "service_time_s": 1e-4, **law}
    read = {
        "in": {"out_per_s": 200.0},
        "parse": {"in_per_s": 200.0, "busy": 0.2},
        "rate": {"in_per_s": 200.0, "busy": 0.8},
    }
    belief = believed(parse(Scenario, given), [Window(0.0, 10.0, 5.0, operators=read)])
    assert belief is not None and belief.scenario.query.operator("rate").service_time_s == pytest.approx(1e-4)
    assert "rate" not in belief.costs_s and "parse" in belief.costs_s


def test_costs_of_a_chain_are_believed_once(tmp_path):
    """A task's busy time is read at each of its operators: what it costs beyond its description, the first costs."""
    places = {"in": "door", "parse": "small", "rate": "small", "out": "door"}
    chained = steady(200, plan={"placement": places, "fused": [["parse", "rate"]]})
    real = chained.model_dump(mode="json")
    real["query"]["operators"][2]["service_time_s"] = 2.5 * SERVICE_S
    series = series_of(write_metrics(type(chained).model_validate(real), tmp_path))
    found = believed(chained, list(windows_of(series, WINDOW_S)))
    assert found.costs_s["parse"] == pytest.approx(2.5 * SERVICE_S, rel=0.05)
    assert "rate" not in found.costs_s


def test_a_move_that_no_more_than_delays_it_is_advised(followed, tmp_path):
    """A move that only delays is advised: nothing bears the rates of an hour, but a host those of a minute."""
    Shadow(crossing(), tmp_path / "out", WINDOW_S, 3600.0, 10).told(followed[1])
    for alert in tables.read(tmp_path / "out", tables.ALERTS, AlertRow):
        assert alert.moves and not alert.avoids
        assert "delays it to" in alert.words and "as it does in the simulator" in alert.words


def test_costs_are_those_of_the_job_and_not_of_its_description(tmp_path):
    apart = {"plan": {"placement": {"in": "door", "parse": "small", "rate": "spare", "out": "door"}}}
    real = steady(200, **apart).model_dump(mode="json")
    real["query"]["operators"][2]["service_time_s"] = 2.5 * SERVICE_S
    series = series_of(write_metrics(type(steady(1)).model_validate(real), tmp_path))
    found = believed(steady(200, **apart), list(windows_of(series, WINDOW_S)))
    assert found.costs_s["rate"] == pytest.approx(2.5 * SERVICE_S, rel=0.05)
    assert found.costs_s["parse"] == pytest.approx(SERVICE_S, rel=0.05)
    assert found.trends["in"].now_per_s == pytest.approx(200, rel=0.01)


@pytest.mark.parametrize("core", [0.5, 2.0])
def test_costs_of_neighbours_are_found_whatever_their_core_is_worth(tmp_path, core):
    """Costs of operators on one core are found by the host's CPU, whatever the core is worth."""
    small = {**host("small", 1), "cpu_percent": 100 * core, "core_percent": 100 * core}
    given = steady(130 * core, cluster={"hosts": [host("door", 4), small, host("spare", 2)]})
    real = given.model_dump(mode="json")
    real["query"]["operators"][2]["service_time_s"] = 2.5 * SERVICE_S
    series = series_of(write_metrics(type(given).model_validate(real), tmp_path))
    found = believed(given, list(windows_of(series, WINDOW_S)))
    assert found.costs_s["rate"] == pytest.approx(2.5 * SERVICE_S, rel=0.05)
    assert found.costs_s["parse"] == pytest.approx(SERVICE_S, rel=0.05)


def test_a_job_that_cannot_keep_up_is_told_of_now_and_with_what_no_move_helps(tmp_path):
    job = steady(700, cluster={"hosts": steady(1).model_dump(mode="json")["cluster"]["hosts"][:2]},
                 plan={"placement": {"in": "door", "parse": "small", "rate": "small", "out": "door"}})  # fmt: skip
    pinned = job.model_dump(mode="json")
    for operator in pinned["query"]["operators"]:
        operator["pinned"] = True
    job = type(job).model_validate(pinned)
    Shadow(job, tmp_path / "out", WINDOW_S, 60.0, 10).told(series_of(write_metrics(job, tmp_path / "metrics"))[:30])
    alert = tables.read(tmp_path / "out", tables.ALERTS, AlertRow)[0]
    assert alert.backpressure_in_s == 0.0 and not alert.avoids
    assert "by now" in alert.words and "no move of a few operators avoids or delays it" in alert.words


def test_what_is_not_known_is_left_out(tmp_path):
    lines = [",".join(MetricSample._fields), "1,numRecordsIn,100,in,", "9,numRecordsIn,40,in,",
             "1,numRecordsIn,5,parse,", "2,busyTimeMsPerSecond,500,elsewhere,", "3,cpu,0.5,,mars", "4,something,1,in,",
             "11,cpu,0.1,,door"]  # fmt: skip
    (tmp_path / "a.csv").write_text("\n".join(lines))
    series = series_of([tmp_path / "a.csv"])
    (window,) = windows_of(series, WINDOW_S)
    assert "in" not in window.operators  # its counter fell
    assert "parse" not in window.operators  # seen once
    assert of_rows(rows_of(window)) == window
    Shadow(crossing(), tmp_path / "out", WINDOW_S, 60.0, 10).told(series)
    assert not (tmp_path / "out").exists()  # nothing of this job


def test_a_trend_is_told_from_chance():
    times_s = [5.0, 15.0, 25.0, 35.0, 45.0]
    assert trend(times_s, [100, 103, 98, 101, 99], 50.0).slope_per_s2 == 0.0
    grown = trend(times_s, [100, 121, 139, 162, 180], 50.0)
    assert grown.slope_per_s2 == pytest.approx(2.0, rel=0.05) and grown.now_per_s == pytest.approx(190, rel=0.02)
    assert trend(times_s, [90, 70, 50, 30, 10], 50.0).ahead(100.0) == 0.0
    assert trend(times_s[:3], [1, 2, 3], 30.0).slope_per_s2 == 0.0
    assert trend(times_s, [7.0] * 5, 50.0).ahead(1e6) == 7.0


@pytest.mark.parametrize("text", ["", "{", "3", '{"start_s": 1}', "\xff"])
def test_what_it_kept_and_cannot_read_is_named(tmp_path, text):
    tables.write(tmp_path, tables.STATISTICS, 10.0, [{"start_s": 10.0, "end_s": 20.0, "at_s": 15.0, "operator": "in"}])
    (window,) = tables.before(tmp_path, 20.0, 5)
    assert window.end_s == 20.0
    (file,) = (tmp_path / tables.STATISTICS).iterdir()
    file.write_text(text, encoding="latin-1")
    with pytest.raises(BadInput, match=f"{file.name} is damaged"):
        tables.before(tmp_path, 20.0, 5)


def test_bad_files_are_named():
    with pytest.raises(BadInput, match=r"m.csv.*has no label operator"):
        parsed("m.csv", b"time,metric,value\n1,numRecordsIn,3")
    for name, wrong in (("m.csv", "not text in UTF-8"), ("m.parquet", "not a readable Parquet")):
        with pytest.raises(BadInput, match=wrong):
            parsed(name, b"\xff\xfe\x00")


def test_bad_options_are_told_before_anything_starts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "metrics").mkdir()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes").write_text("mine")
    assert "is no folder" in refused("shadow", "rush-hour", "nowhere")
    assert "holds something else" in refused("shadow", "rush-hour", "metrics", "--out", "mine")
    assert "did you mean" in refused("shadow", "rush-hourr", "metrics")
    assert "--window" in refused("shadow", "rush-hour", "metrics", "--window", 0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["metrics", "mine"]


def test_a_run_is_exported_as_metrics_that_import_reads(tmp_path):
    done("export", "word-count", "--set", "run.horizon_s=30", "--format", "metrics", "--out", tmp_path / "metrics")
    names = [path.name for path in sorted((tmp_path / "metrics").iterdir())]
    assert names == ["000000010000.csv", "000000020000.csv", "000000030000.csv"]
    lines = [path.read_text().splitlines() for path in sorted((tmp_path / "metrics").iterdir())]
    whole = [lines[0][0], *(line for file in lines for line in file[1:])]
    (tmp_path / "all.csv").write_text("\n".join(whole))
    done("import", "metrics", "word-count", tmp_path / "all.csv", tmp_path / "rows")
    assert list((tmp_path / "rows").iterdir())
