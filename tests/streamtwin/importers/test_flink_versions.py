"""Import, calibration and questions on answers of Flink 1.13, 1.17 and 2.3; and windows with two inputs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scenarios.files import scenario_file
from streamtwin.connect.importers.flink_chain import steps_of
from streamtwin.connect.importers.flink_job import FlinkJob, TaskManagers, Vertex
from streamtwin.connect.importers.flink_scenario import scenario_of
from tests.commands import twin
from tests.streamtwin.importers.flink_cluster import CONFIG, VERTICES, detail, job_at, managers, plan, written
from twin.deployment import nominal_rates
from twin.query import Aggregate, Join
from twin.workload import Constant

VERSIONS = ("1.13.6", "1.17.2", "2.3.0")
COST_S = 2 * 0.3 / 1000
"""Cost of a record of `parse -> clean`, at each load."""


def job(version: str, load: float, second: float) -> dict[str, Any]:
    """Answer of GET /jobs/:id. In 1.13 it lacks the busy times of subtasks, and the maximum of key groups."""
    found = job_at(second)
    for vertex in found["vertices"]:
        metrics = vertex["metrics"]
        lived_ms = 1000.0 * second * vertex["parallelism"]
        for key in ("read-records", "write-records", "read-bytes", "write-bytes"):
            metrics |= {key: round(load * metrics[key]), f"{key}-complete": True}
        busy_ms = load * metrics["accumulated-busy-time"]
        metrics |= {"accumulated-busy-time": busy_ms, "accumulated-idle-time": lived_ms - busy_ms}
        vertex["tasks"] = {"RUNNING": vertex["parallelism"], "FINISHED": 0}
        if version.startswith("1.13"):
            vertex["metrics"] = {key: value for key, value in metrics.items() if "accumulated" not in key}
            del vertex["maxParallelism"]
        if version.startswith("2"):
            vertex["slotSharingGroupId"] = "0"
    more = {"pending-operators": 0, "job-type": "STREAMING"} if version.startswith("2") else {"plan": plan()["plan"]}
    return {**found, "isStoppable": False, "maxParallelism": -1, **more}


def of_manager(version: str) -> dict[str, Any]:
    found = managers()
    for each in found["taskmanagers"]:
        old = not version.startswith("2")
        each["path"] = each["path"].replace("pekko", "akka") if old else each["path"]
        each |= {"dataPort": 37587, "slotsNumber": 2, "freeSlots": 0, "totalResource": {"cpuCores": 4.0}}
    return found


def of_vertex(version: str, number: int) -> dict[str, Any]:
    """Answer of GET /jobs/:id/vertices/:id: places of subtasks were called `host`, and are `endpoint` now."""
    place = "endpoint" if version.startswith("2") else "host"
    return {"subtasks": [{**each, place: "tm:37587"} for each in detail(number)["subtasks"]], "aggregated": {}}


def recorded(folder: Path, version: str, load: float, **changed: Any) -> Path:
    """Folder of answers of two moments, 100 s apart."""
    files: dict[str, Any] = {
        "clicks_jobs_id.json": job(version, load, 160.0),
        "clicks_jobs_id_first.json": job(version, load, 60.0),
        "clicks_jobs_id_plan.json": plan(),
        "taskmanagers.json": of_manager(version),
        "overview.json": {"flink-version": version, "flink-commit": "c0f8d1a"},
        "jobmanager_config.json": CONFIG,
    }
    for number, (*_, busy, _, _) in enumerate(VERTICES):
        files[f"clicks_v{number}_detail.json"] = of_vertex(version, number)
        if version.startswith("1.13"):
            shares = {"busyTimeMsPerSecond": 1000 * load * busy, "backPressuredTimeMsPerSecond": 0.0}
            files[f"clicks_v{number}_subtasks_metrics.json"] = [{"id": k, "avg": v} for k, v in shares.items()]
    for number, used in enumerate((0.35 * load, 0.35 * load)):
        for when, time_ns in (("_first", 1e9), ("", 1e9 + 100e9 * used)):
            name = f"clicks_taskmanager_{number}_metrics{when}.json"
            files[name] = [{"id": "Status.JVM.CPU.Time", "value": str(round(time_ns))}]
    return written(folder, files | changed)


def read(folder: Path, out: Path, points: Path) -> str:
    """Messages of the import of a point, which is named like its folder."""
    found = twin("import", "flink", folder, "--out", out, "--points", points, "--point", folder.name)
    assert found.returncode == 0, found.stderr
    return found.stderr


@pytest.mark.parametrize("version", VERSIONS)
def test_import_calibrate_ask(version: str, tmp_path: Path) -> None:
    points, yaml, engine, calibrated = (tmp_path / name for name in ("p.csv", "job.yaml", "engine.yaml", "done.yaml"))
    for name, load, out in (("a", 1.0, yaml), ("b", 1.6, tmp_path / "again.yaml")):
        said, *_ = read(recorded(tmp_path / name, version, load), out, points).splitlines()
        assert "one point cannot tell it" in said
    assert scenario_file.load(str(yaml)).query.operator("parse-clean").service_time_s == pytest.approx(COST_S, rel=0.01)
    found = twin("calibrate", yaml, points, "--out", engine)
    assert found.returncode == 0 and "contradicts" not in found.stderr, found.stderr
    assert twin("use-profile", yaml, engine, "--out", calibrated).returncode == 0
    asked = ("capacity", calibrated, "--find-max", "workload.arrivals.gen.rate_per_s", "--predict-only", "--json")
    found = twin(*asked)
    assert found.returncode == 0, found.stderr
    border = json.loads(found.stdout)["predicted"]["in_long_runs"]
    assert border == pytest.approx(2 / COST_S, rel=0.03), "two subtasks that are always busy"


@pytest.mark.parametrize("cpu_is_known", [True, False])
def test_a_point_at_which_a_record_cost_more_is_named(cpu_is_known: bool, tmp_path: Path) -> None:
    """A point with twice the busy time a record is named, and as waiting if the CPU is known."""
    points, yaml = tmp_path / "p.csv", tmp_path / "job.yaml"
    for name, load, factor in (("a", 1.0, 1.0), ("b", 1.5, 1.0), ("c", 0.5, 2.0)):
        last, first = (job("2.3.0", load, second) for second in (160.0, 60.0))
        for each in (last, first):
            metrics = each["vertices"][1]["metrics"]
            more_ms = (factor - 1.0) * metrics["accumulated-busy-time"]
            metrics["accumulated-busy-time"] += more_ms
            metrics["accumulated-idle-time"] -= more_ms
        changed = {"clicks_jobs_id.json": last, "clicks_jobs_id_first.json": first}
        if not cpu_is_known:
            changed |= dict.fromkeys(f"clicks_taskmanager_{number}_metrics.json" for number in (0, 1))
        folder = recorded(tmp_path / name, "2.3.0", load, **changed)
        read(folder, yaml if name == "a" else tmp_path / f"{name}.yaml", points)
    found = twin("calibrate", yaml, points)
    assert found.returncode == 0, found.stderr
    said = [line for line in found.stderr.splitlines() if "contradicts" in line and "parse-clean" in line]
    assert len(said) == 1 - cpu_is_known and all("c: busy share of parse-clean" in line for line in said)


def test_points_at_one_rate_do_not_tell_what_is_used_without_records(tmp_path: Path) -> None:
    points, yaml = tmp_path / "p.csv", tmp_path / "job.yaml"
    for name, load, out in (("a", 1.0, yaml), ("b", 1.1, tmp_path / "again.yaml")):
        read(recorded(tmp_path / name, "2.3.0", load), out, points)
    found = twin("calibrate", yaml, points)
    assert found.returncode == 0, found.stderr
    said = [line for line in found.stderr.splitlines() if "its points are at about one rate" in line]
    assert len(said) == 2 and all("one more, at half or twice the rate, would tell" in line for line in said)


JOIN = "Window(TumblingProcessingTimeWindows(2000), ProcessingTimeTrigger, CoGroupWindowFunction)"
SLIDES = "Window(SlidingProcessingTimeWindows(4000, 1000), ProcessingTimeTrigger, CoGroupWindowFunction)"
REDUCES = "Window(TumblingProcessingTimeWindows(2000), ProcessingTimeTrigger, Reducer, PassThroughWindowFunction)"


def vertex(name: str, inputs: tuple[str, ...], in_per_s: float, out_per_s: float, steps: str = "") -> Vertex:
    return Vertex(
        id=name,
        name=name,
        chain=steps_of(name, steps or name, {}),
        inputs=tuple((each, "HASH" if steps else "REBALANCE") for each in inputs),
        parallelism=1,
        key_groups=128,
        hosts=("h",),
        dealt=(in_per_s,),
        in_per_s=in_per_s,
        out_per_s=out_per_s,
        out_bytes_per_s=50.0 * out_per_s,
        busy=0.1,
        backpressured=0.0,
    )


def joining(window: str, results_per_s: float, sides: int = 2, rate_per_s: float = 100.0) -> FlinkJob:
    sources = [vertex(f"s{side}", (), 0.0, rate_per_s) for side in range(sides)]
    names = tuple(each.name for each in sources)
    window_ = vertex("window", names, rate_per_s * sides, results_per_s, window)
    sink = vertex("sink", ("window",), results_per_s, 0.0)
    return FlinkJob("j", "2.3.0", (*sources, window_, sink), (TaskManagers("h", 4.0, 8000.0),), {}, 0.0, ())


@pytest.mark.parametrize(("window", "size_s", "slide_s"), [(JOIN, 2.0, 2.0), (SLIDES, 4.0, 1.0)])
def test_a_join_of_two_sides_is_right_at_other_rates(window: str, size_s: float, slide_s: float) -> None:
    """A join's results grow with the product of its sides, not their sum: of 64 even keys one pair in 64 matches."""
    chance = 1.0 / 64.0
    imported = scenario_of(joining(window, chance * (100.0 * size_s) ** 2 / slide_s), {})
    join = imported.scenario.query.operator("window")
    assert isinstance(join, Join) and join.selectivity == pytest.approx(chance)
    thrice = nominal_rates(imported.scenario.query, dict.fromkeys(("s0", "s1"), Constant(rate_per_s=300.0)))
    assert thrice["sink"].in_per_s == pytest.approx(chance * (300.0 * size_s) ** 2 / slide_s, rel=0.01)


def test_sides_that_nobody_tells_apart_keep_their_results_by_input() -> None:
    imported = scenario_of(joining(JOIN, 600.0, sides=3), {})
    join = imported.scenario.query.operator("window")
    assert isinstance(join, Join) and join.amplification == pytest.approx(2.0)
    assert any("those at these rates" in note for note in imported.notes)


def test_streams_that_meet_in_a_window_are_no_join() -> None:
    window = scenario_of(joining(REDUCES, 25.0), {}).scenario.query.operator("window")
    assert isinstance(window, Aggregate) and window.groups == 50


def test_a_window_that_ends_a_job_has_the_sink_in_its_chain() -> None:
    whole = joining(REDUCES, 25.0)
    for each, end in ((whole, "sink"), (replace(whole, vertices=whole.vertices[:-1]), "window#sink")):
        operators = scenario_of(each, {}).scenario.query.operators
        assert [operator.name for operator in operators if operator.kind == "sink"] == [end]
