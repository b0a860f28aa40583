"""`twin import metrics`: samples of real runs as rows that models read, and refused tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from models import dataset
from scenarios.calibration.points import read_points
from scenarios.files import scenario_file
from streamtwin.connect.importers.prometheus import read_metrics
from tests.commands import refused, twin
from tests.scenarios.calibration.test_points import JOB
from twin.checkpoints import Checkpoints
from twin.errors import BadInput
from twin.metrics import ESTIMATED
from twin.scenario import Scenario
from twin.spec import parse
from twin.trace import TRAINING_ROWS

SCOPE = "flink_taskmanager_job_task_"


def samples() -> list[tuple[object, ...]]:
    """Samples of two runs of a minute, every 10 s: 100 records/s, and 500 of 1,000 offered. The map has two
    subtasks."""
    lines: list[tuple[object, ...]] = []
    for run, rate, busy, offered in (("slow", 100, 200.0, 100), ("over", 500, 1000.0, 1000)):
        for second in range(0, 61, 10):
            for operator, task in (("source", "source"), ("map", "map"), ("sink", "sink")):
                for subtask in (0, 1) if operator == "map" else (0,):
                    share = 2 if operator == "map" else 1
                    grown = 7_000 + rate * second / share
                    lines.append((second, f"{SCOPE}numRecordsOut", grown, run, task, subtask, ""))
                    lines.append((second, f"{SCOPE}numRecordsIn", grown, run, task, subtask, ""))
                    lines.append(
                        (second, f"{SCOPE}busyTimeMsPerSecond", busy if share == 2 else 10.0, run, task, subtask, "")
                    )
            lines.append((second, "offered_per_s", offered, run, "source", "", ""))
            lines.append((second, "flink_taskmanager_Status_JVM_CPU_Load", 0.1, run, "", "", "h"))
            lines.append((second, "processing_latency_s", 0.02, run, "", "", ""))
            lines.append((second, "job_latency_mean", 7.0, run, "map", 0, ""))
    return lines


COLUMNS = ("time", "metric", "value", "run", "task_name", "subtask_index", "host")


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """Scenario and export, as files."""
    scenario, export = tmp_path / "job.yaml", tmp_path / "export.csv"
    scenario.write_text(scenario_file.dump(JOB))
    export.write_text("\n".join(",".join(map(str, line)) for line in (COLUMNS, *samples())))
    return scenario, export


def test_rows_of_measured_runs_are_rows_that_models_read(files: tuple[Path, Path], tmp_path: Path) -> None:
    out, points = tmp_path / "rows", tmp_path / "points.csv"
    done = twin("import", "metrics", *files, out, "--points", points)
    assert done.returncode == 0, done.stderr
    table = pq.read_table(out)  # the whole folder
    assert set(TRAINING_ROWS.names) < set(table.column_names) and table["measured"].to_pylist() == [True, True]
    found = dataset.read(out)
    labels = dict(zip(ESTIMATED, found.labels_GxA.T, strict=True))
    assert labels["throughput_per_s"] == pytest.approx([100, 500])
    assert labels["backpressured"].tolist() == [0, 1]
    assert labels["processing_latency_s"] == pytest.approx([0.02, 0.02])
    assert np.isnan(labels["e2e_latency_s"]).all(), "nobody measured it"
    slow, over = read_points(points, JOB)
    assert slow.busy["map"] == pytest.approx(0.2) and over.delivered == {"source": 0.5} and over.cpu == {"h": 0.1}
    assert slow.markers_s == {"map": 0.007} and slow.latency_s == 0.02, "latencies of operators are those of markers"


def test_rows_of_measured_runs_hold_the_checkpoints_of_the_job(files: tuple[Path, Path], tmp_path: Path) -> None:
    out, given = tmp_path / "rows", parse(Scenario, {**dict(JOB), "checkpoints": {"interval_s": 30.0}})
    files[0].write_text(scenario_file.dump(given))
    done = twin("import", "metrics", *files, out)
    assert done.returncode == 0, done.stderr
    held = pq.read_table(out)["checkpoints"].to_pylist()
    assert [Checkpoints.model_validate_json(each) for each in held] == [given.checkpoints] * 2


def test_parquet_says_the_same(files: tuple[Path, Path], tmp_path: Path) -> None:
    table = pa.Table.from_pylist([dict(zip(COLUMNS, map(str, line), strict=True)) for line in samples()])
    pq.write_table(table, tmp_path / "export.parquet")
    assert read_metrics(tmp_path / "export.parquet") == read_metrics(files[1])


def _written(lines: Sequence[Sequence[object]], columns: Sequence[str] = COLUMNS, by: str = ",") -> str:
    return "\n".join(by.join(map(str, line)) for line in (columns, *lines))


def test_tables_as_exporters_write_them_say_the_same(files: tuple[Path, Path]) -> None:
    """Exporters' variants are read alike: other names, capitals, semicolons, epochs in milliseconds, missing values."""
    before, names = read_metrics(files[1]), ("Timestamp", "__name__", "Value", *COLUMNS[3:])
    for unit in (1e3, 1e6, 1e9):
        later = [(round((1.7e9 + float(str(time))) * unit), *rest) for time, *rest in samples()]
        files[1].write_text(_written(later, names, by=";"))
        for run, other in zip(before, read_metrics(files[1]), strict=True):
            assert (run.seconds, run.subtasks) == (pytest.approx(other.seconds), other.subtasks)
            assert [row.keys() for row in run.rows] == [row.keys() for row in other.rows]
            for row, same in zip(run.rows, other.rows, strict=True):
                assert all(
                    row[key] == (pytest.approx(each) if isinstance(each, float) else each) for key, each in same.items()
                )
    stale = [(5, f"{SCOPE}busyTimeMsPerSecond", value, "slow", "map", 0, "") for value in ("NaN", "")]
    files[1].write_text(_written([*samples(), *stale]))
    slow, over = read_metrics(files[1])
    assert (slow.rows, slow.unmeasured, over) == (before[0].rows, (f"{SCOPE}busyTimeMsPerSecond",), before[1])


def test_rates_of_some_subtasks_are_not_those_of_all(files: tuple[Path, Path], tmp_path: Path) -> None:
    one = [line for line in samples() if line[5] != 1]
    placed = [(*line, "[h, h]") for line in one]
    files[1].write_text(_written(placed, (*COLUMNS, "plan.placement.map"), by=";"))
    said = refused("import", "metrics", *files, tmp_path / "rows")
    assert "map has samples of 1 of its 2 subtasks" in said and not (tmp_path / "rows").exists()
    files[1].write_text(_written(samples()))
    assert (
        "map has samples of 2 subtasks, and 1 in the plan"
        in twin("import", "metrics", *files, tmp_path / "rows").stderr
    )


def test_simulated_rows_still_need_all_their_labels(tmp_path: Path) -> None:
    labels = {"success": True, "backpressured": False, "throughput_per_s": 1.0, "processing_latency_s": 1.0}
    row = {"run": "r", "config_hash": "c", "horizon_s": 1.0, "deployment": "{}", "records_out": 1, **labels}
    pq.write_table(pa.Table.from_pylist([row], schema=TRAINING_ROWS), tmp_path / "simulated.parquet")
    with pytest.raises(ValueError, match="e2e_latency_s = None"):
        dataset.read(tmp_path / "simulated.parquet")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("time,metric,value\n", "holds no samples"),
        ("a,b\n1,2", "has no time"),
        ("time,metric,value\n0,numRecordsIn,5\n1,numRecordsIn,6", "no label operator or task_name"),
        ("time,metric,value,operator\n0,numRecordsIn,5,map", "counters of one moment only; export two moments"),
        ("time,metric,value,operator\n0,numRecordsIn,5,map\n9,numRecordsIn,1,map", "the job was restarted"),
        ("time,metric,value,operator\n0,numRecordsIn,-5,map\n9,numRecordsIn,1,map", "nothing counts below 0"),
        ("time,metric,value,operator\n0,busyTimeMsPerSecond,NaN,map\n5,busyTimeMsPerSecond,,map", "has a value"),
        ("time,metric,value,operator\n0,busyTimeMsPerSecond,inf,map", "is inf"),
        ("time;metric;value;operator\n0;busyTimeMsPerSecond;0,5;map", "a number such as 0.5, got '0,5'"),
        ("time,timestamp,metric,value\n0,0,busyTimeMsPerSecond,5", "time and timestamp, which are both"),
        ("time,metric,value\n0,busyTimeMsPerSecond,5,map", "line 2 has more cells"),
        ("time,metric,value,operator\nnoon,busyTimeMsPerSecond,1,map", "time must be seconds or ISO 8601"),
        ("time,metric,value,operator\n0,numRecordIn,1,map", "did you mean 'numRecordsIn'"),
        ("time,metric,value,operator\n0,busyTimeMsPerSecond,1,mpa", "did you mean 'map'"),
    ],
)
def test_bad_exports_are_one_clear_line(text: str, words: str, files: tuple[Path, Path], tmp_path: Path) -> None:
    files[1].write_text(text)
    assert words in refused("import", "metrics", *files, tmp_path / "rows")
    assert not (tmp_path / "rows").exists()


def as_exposed(run: str) -> str:
    """Samples of a run as `/federate` gives them, with times in milliseconds."""
    lines = ["# TYPE flink_taskmanager_job_task_numRecordsIn gauge"]
    for at_s, metric, value, of, *labels in samples():
        if of == run:
            told = {name: each for name, each in zip(COLUMNS[4:], labels, strict=True) if each != ""}
            inside = ",".join(f'{name}="{each}"' for name, each in told.items())
            lines.append(f"{metric}{{{inside}}} {value} {1000 * int(str(at_s))}")
    return "\n".join([*lines, 'flink_taskmanager_other{quantile="0.5"} +Inf 0', ""])


def as_answered(run: str) -> str:
    """The same as an answer of `/api/v1/query_range`."""
    series: dict[str, dict[str, Any]] = {}
    for at_s, metric, value, of, *labels in samples():
        if of == run:
            told = {name: str(each) for name, each in zip(COLUMNS[4:], labels, strict=True) if each != ""}
            named = {"__name__": metric, **told}
            series.setdefault(str(named), {"metric": named, "values": []})["values"].append([at_s, str(value)])
    other = {"metric": {"__name__": "other"}, "values": [[0, "+Inf"]]}
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": [*series.values(), other]}})


@pytest.mark.parametrize("run", ["slow", "over"])
@pytest.mark.parametrize("form", [as_exposed, as_answered])
def test_what_prometheus_writes_gives_the_readings_of_a_table(
    run: str, form: Callable[[str], str], files: tuple[Path, Path], tmp_path: Path
) -> None:
    (table,) = [each for each in read_metrics(files[1]) if each.name == run]
    (tmp_path / "metrics").write_text(form(run))
    (found,) = read_metrics(tmp_path / "metrics")
    assert (found.seconds, found.subtasks) == (table.seconds, table.subtasks)
    assert [{**row, "point": run} for row in found.rows] == list(table.rows)


def test_counters_of_operators_in_a_task_are_not_added_to_those_of_the_task(tmp_path: Path) -> None:
    """Flink's reporter exposes both, and their names end alike."""
    task, inside = 'task_name="map",subtask_index="0"', 'task_name="map",subtask_index="0",operator_name="tail"'
    lines = [f"{SCOPE}numRecordsInPerSecond{{{task}}} 100", f"{SCOPE}operator_numRecordsInPerSecond{{{inside}}} 40"]
    (tmp_path / "scraped.txt").write_text("\n".join([*lines, ""]))
    (run,) = read_metrics(tmp_path / "scraped.txt")
    assert run.rows == ({"operator": "map", "in_per_s": 100.0, "point": "run"},)
    assert run.skipped == (f"{SCOPE}operator_numRecordsInPerSecond",)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "begins as JSON and is none"),
        ('{"status": "error", "error": "query timed out"}', "is an error of Prometheus: query timed out"),
        ('{"status": "success", "data": {"alerts": []}}', "JSON without data.result"),
        ('{"data": {"result": [{"metric": {"__name__": "x"}}]}}', "a series of x has no values"),
        ("# TYPE x gauge\nx{ 1\n", "line 2 is no sample of Prometheus"),
        ('{"data": {"result": [{"metric": {"job": "x"}, "value": [0, "1"]}]}}', "a series has no __name__, as of rate"),
        ('{"data": {"result": [{"metric": [], "value": [0, "1"]}]}}', "JSON without data.result"),
        ('{"data": {"result": [{"metric": {"__name__": "x"}, "value": [0, "abc"]}]}}', "value must be a number"),
    ],
)
def test_damaged_answers_are_one_line(text: str, says: str, files: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "metrics").write_text(text)
    assert says in refused("import", "metrics", files[0], tmp_path / "metrics", tmp_path / "rows")


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        (('job_name="a"', 'job_name="b"'), "has metrics of 2 jobs by job_name: a, b; export those of one"),
        (('task_attempt_id="x"', 'task_attempt_id="y"'), "subtask 0 of map has 2 attempts, so the job was restarted"),
    ],
)
def test_what_would_be_added_and_is_not_one_job_is_refused(labels: tuple[str, str], says: str, tmp_path: Path) -> None:
    """Each label is another series, and series of an operator are its subtasks."""
    task = 'task_name="map",subtask_index="0"'
    lines = [f"{SCOPE}numRecordsInPerSecond{{{task},{each}}} 100" for each in labels]
    (tmp_path / "scraped.txt").write_text("\n".join([*lines, ""]))
    with pytest.raises(BadInput, match=says):
        read_metrics(tmp_path / "scraped.txt")
    (tmp_path / "scraped.txt").write_text(f"{lines[0]}\n")
    (run,) = read_metrics(tmp_path / "scraped.txt")
    assert run.rows == ({"operator": "map", "in_per_s": 100.0, "point": "run"},)


@pytest.mark.parametrize("kind", ["counter", "gauge", "untyped"])
def test_counters_are_read_whatever_type_a_reporter_gives_them(kind: str, tmp_path: Path) -> None:
    lines = [f"# TYPE {SCOPE}numRecordsIn {kind}"]
    lines += [f'{SCOPE}numRecordsIn{{task_name="map"}} {500 * at_s} {1000 * at_s}' for at_s in range(1, 5)]
    (tmp_path / "federated.txt").write_text("\n".join([*lines, ""]))
    (run,) = read_metrics(tmp_path / "federated.txt")
    assert run.rows == ({"operator": "map", "in_per_s": 500.0, "point": "run"},) and not run.skipped


def test_of_one_moment_gauges_are_read_and_counters_named(tmp_path: Path) -> None:
    counter = f'{SCOPE}numRecordsIn{{task_name="map"}} 500'
    (tmp_path / "once.txt").write_text(f'{counter}\n{SCOPE}busyTimeMsPerSecond{{task_name="map"}} 250\n')
    (run,) = read_metrics(tmp_path / "once.txt")
    assert run.rows == ({"operator": "map", "busy": 0.25, "point": "run"},)
    assert run.skipped == (f"{SCOPE}numRecordsIn",)
    (tmp_path / "once.txt").write_text(f"{counter}\n")
    with pytest.raises(BadInput, match="counters of one moment only; export two moments"):
        read_metrics(tmp_path / "once.txt")
