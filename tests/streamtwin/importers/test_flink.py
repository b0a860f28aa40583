"""`twin import flink`: a running job's answers, live and saved, as a scenario."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scenarios.calibration.points import read_points
from scenarios.files import scenario_file
from streamtwin.connect.importers.flink_answers import Answers, from_folder
from streamtwin.connect.importers.flink_job import read_job
from streamtwin.connect.importers.flink_live import from_endpoint
from streamtwin.connect.importers.flink_scenario import ImportedJob, scenario_of
from tests.commands import refused, twin
from tests.streamtwin.importers.flink_cluster import CONFIG, Cluster, detail, job_at, managers, plan, serving, written
from twin.deployment import nominal_rates
from twin.errors import BadInput
from twin.profiles import BufferDebloat, NetworkMemory
from twin.workload import contiguous


def live(gathered_s: float = 0.0) -> Answers:
    with serving(Cluster(gathered_s)) as url:
        return from_endpoint(url, window_s=3.0, sleep=lambda _: None)


def save(folder: Path, **changed: Any) -> Path:
    answers = {
        "job_jobs_id.json": job_at(100.0),
        "job_jobs_id_plan.json": plan(),
        "taskmanagers.json": managers(),
        "overview.json": {"flink-version": "2.3.0"},
        "jobmanager_config.json": CONFIG,
        **{f"job_v{number}_detail.json": detail(number) for number in range(4)},
    }
    return written(folder, answers | changed)


def imported(folder: Path, offered: Mapping[str, float] | None = None, **changed: Any) -> ImportedJob:
    """Import of saved answers of which some are others. changed: `job`, or by file."""
    files = {"job_jobs_id.json" if name == "job" else name: answer for name, answer in changed.items()}
    return scenario_of(read_job(from_folder(save(folder, **files))), offered or {})


def with_vertex(number: int = 0, **changed: Any) -> dict[str, Any]:
    job = job_at(100.0)
    job["vertices"][number] |= changed
    return job


def with_metrics(number: int, **changed: Any) -> dict[str, Any]:
    """Answers with other metrics of a vertex, among its own ones."""
    metrics = {key.replace("_", "-"): value for key, value in changed.items()}
    return with_vertex(number, metrics=job_at(100.0)["vertices"][number]["metrics"] | metrics)


@pytest.mark.parametrize(("version", "said"), [("1.18.1", ""), ("0.9", "'0.9' is no version"), (None, "is unknown")])
def test_versions_that_nobody_knows_are_noted(version: str | None, said: str, tmp_path: Path) -> None:
    notes = read_job(from_folder(save(tmp_path / "a", **{"overview.json": {"flink-version": version}}))).notes
    assert any(said in note for note in notes) if said else not any("version" in note for note in notes)


def test_a_live_job_is_read_through_its_stale_snapshots() -> None:
    """Rates of a live job are right though its first snapshot is a minute old."""
    job = read_job(live())
    gen, parse, window, writer = job.vertices
    assert gen.out_per_s == pytest.approx(1000, rel=1e-3) and parse.in_per_s == pytest.approx(1000, rel=1e-3)
    assert window.out_per_s == pytest.approx(25, rel=0.05) and writer.in_per_s == pytest.approx(25, rel=0.05)
    assert parse.busy == pytest.approx(0.3) and parse.backpressured == pytest.approx(0.0)
    assert parse.steps == ("parse", "clean") and parse.hosts == ("10.0.0.1", "10.0.0.2")
    assert not job.notes


def test_a_window_shorter_than_metrics_take_is_extended() -> None:
    """A window shorter than the time in which a cluster gathers metrics (10 s by default) is extended."""
    gen = read_job(live(gathered_s=8.0)).vertices[0]
    assert gen.out_per_s == pytest.approx(1000, rel=1e-3)
    with pytest.raises(BadInput, match=r"not refreshed in 33 s; lower the cluster's metrics.fetcher"):
        live(gathered_s=10_000.0)


@pytest.mark.parametrize(("named", "kind"), [("rocksdb", "rocksdb"), ("hashmap", "heap"), ("com.example.Own", None)])
def test_the_state_backend_is_that_of_the_configuration(tmp_path: Path, named: str, kind: str | None) -> None:
    config = [*CONFIG, {"key": "state.backend.type", "value": named}]
    folder = save(tmp_path / "job", **{"jobmanager_config.json": config})
    backend = scenario_of(read_job(from_folder(folder)), {}).scenario.engine.state_backend
    assert (backend and backend.kind) == kind
    own = {"state_backend": "EmbeddedRocksDBStateBackend"}
    folder = save(tmp_path / "own", **{"jobmanager_config.json": config, "job_jobs_id_checkpoints_config.json": own})
    backend = scenario_of(read_job(from_folder(folder)), {}).scenario.engine.state_backend
    assert backend is not None and backend.kind == "rocksdb", "the job's own backend goes before the cluster's"


@pytest.mark.parametrize("enabled", [True, False])
def test_buffers_are_debloated_as_the_configuration_says(tmp_path: Path, enabled: bool) -> None:
    said = {"enabled": str(enabled).lower(), "target": "500 ms", "samples": "10"}
    debloat = [{"key": f"taskmanager.network.memory.buffer-debloat.{key}", "value": said[key]} for key in said]
    folder = save(tmp_path / "job", **{"jobmanager_config.json": [*CONFIG, *debloat]})
    memory = scenario_of(read_job(from_folder(folder)), {}).scenario.engine.network_memory
    assert memory is not None
    assert memory.buffer_debloat == (BufferDebloat(target_s=0.5, samples=10) if enabled else None)


def test_the_scenario_does_what_the_job_did() -> None:
    scenario = scenario_of(read_job(live()), {}).scenario
    kinds = {each.name: each.kind for each in scenario.query.operators}
    assert kinds == {"gen": "source", "parse-clean": "filter", "window": "aggregate", "Writer": "sink"}
    rates = nominal_rates(scenario.query, scenario.workload.arrivals)
    assert rates["window"].in_per_s == pytest.approx(900, rel=2e-3)
    assert rates["Writer"].in_per_s == pytest.approx(25, rel=2e-2), "50 keys, every 2 s"
    window, parse = scenario.query.operator("window"), scenario.query.operator("parse-clean")
    assert window.groups == 50 and window.key_groups == 128
    assert window.state_bytes_per_group == 256_000 / 128
    assert parse.service_time_s == pytest.approx(2 * 0.3 / 1000, rel=1e-3)
    assert parse.record_bytes == pytest.approx(50, rel=1e-2)
    assert scenario.plan.parallelism("parse-clean") == 2
    assert [host.cpu_percent for host in scenario.cluster.hosts] == [400, 400]
    memory = NetworkMemory(floating_buffers_per_gate=4)  # one is configured, the others are Flink's defaults
    assert (scenario.engine.network_memory, scenario.engine.channel_records) == (memory, None)
    assert scenario.engine.buffer_bytes == 16 * 1024 and scenario.engine.flush_s == 0.05
    assert "parse -> clean" in scenario.description
    assert scenario_file.parse_scenario(scenario_file.dump(scenario), "text") == scenario


@pytest.mark.slow
def test_from_a_live_endpoint_to_points_that_calibrate(tmp_path: Path) -> None:
    out, points, saved = tmp_path / "job.yaml", tmp_path / "points.csv", tmp_path / "answers"
    with serving(Cluster()) as url:
        first = twin("import", "flink", url, "--window", 2, "--out", out, "--points", points, "--save", saved, "--json")
    assert first.returncode == 0, first.stderr
    assert json.loads(first.stdout)["readings"][1]["busy"] == pytest.approx(0.3)
    again = scenario_of(read_job(from_folder(saved)), {})
    assert again.scenario == scenario_file.load(str(out))
    point = read_points(points, again.scenario)[0]
    assert point.delivered == {"gen": 1.0} and point.busy["parse-clean"] == pytest.approx(0.3)
    assert point.markers_s == {"parse-clean": pytest.approx(0.03)}, "the mean of two subtasks"


def test_a_second_point_needs_another_name(tmp_path: Path) -> None:
    saved, points = save(tmp_path / "answers"), tmp_path / "points.csv"
    command = ("import", "flink", saved, "--points", points, "--out")
    assert twin(*command, tmp_path / "a.yaml").returncode == 0
    assert "has a point 'clicks'" in refused(*command, tmp_path / "b.yaml")
    assert not (tmp_path / "b.yaml").exists()
    (tmp_path / "other.csv").write_text("a,b\n")
    other = ("import", "flink", saved, "--points", tmp_path / "other.csv")
    assert "another table" in refused(*other)


def test_a_slowed_source_says_that_more_is_offered(tmp_path: Path) -> None:
    job = with_metrics(0, accumulated_backpressured_time=90_000, accumulated_idle_time=9_000)
    assert any("backpressured 90%" in note for note in imported(tmp_path, job=job).notes)
    told = imported(tmp_path, {"gen": 4000.0}, job=job)
    assert told.scenario.workload.arrivals["gen"].rate_per_s == 4000
    assert told.readings[0]["offered_per_s"] == 4000 and told.readings[0]["out_per_s"] == 1000
    with pytest.raises(BadInput, match="no such source; there are gen"):
        imported(tmp_path, {"parse-clean": 1.0}, job=job)


def test_uneven_keys_become_shares_of_key_groups(tmp_path: Path) -> None:
    """Uneven subtasks become shares of key groups: one of two gets three times as much, also in the simulator."""
    uneven = detail(2)
    for subtask, taken in zip(uneven["subtasks"], (30_000, 10_000), strict=True):
        subtask["metrics"] = {"read-records": taken}
    scenario = imported(tmp_path, **{"job_v2_detail.json": uneven}).scenario
    shares = scenario.workload.keys["window"].by_group(128)
    assert shares[:64].sum() == pytest.approx(0.75) and shares.sum() == pytest.approx(1.0)
    assert scenario_file.parse_scenario(scenario_file.dump(scenario), "text") == scenario


def test_subtasks_that_differ_by_chance_are_even(tmp_path: Path) -> None:
    for dealt, uneven in (((10_100, 9_900), False), ((343, 297, 360), False), ((3437, 2969, 3594), True)):
        plain = detail(2)
        plain["subtasks"] = [{**plain["subtasks"][0], "metrics": {"read-records": taken}} for taken in dealt]
        changed = {"job": with_vertex(2, parallelism=len(dealt)), "job_v2_detail.json": plain}
        assert ("window" in imported(tmp_path, **changed).scenario.workload.keys) == uneven


def described(folder: Path, number: int, description: str, hashed: bool, **metrics: float) -> ImportedJob:
    """Import of the job with another vertex. metrics: of it, after 100 s."""
    changed = plan()
    node = next(each for each in changed["plan"]["nodes"] if each["id"] == f"v{number}")
    node["description"] = description
    node["inputs"][0]["ship_strategy"] = "HASH" if hashed else "REBALANCE"
    return imported(folder, **{"job": with_metrics(number, **metrics), "job_jobs_id_plan.json": changed})


@pytest.mark.parametrize(
    "description",
    [
        "Window(ProcessingTimeSessionWindows(1000), ProcessingTimeTrigger, Sum, PassThrough)<br/>",
        "WindowAggregate(groupBy=[user], window=[SESSION(time_col=[ts], gap=[1 s], partition keys=[user])])",
    ],
)
def test_sessions_have_as_many_keys_as_their_results_say(description: str, tmp_path: Path) -> None:
    """Sessions get their keys by their results: of 900 records a second to 500 keys, exp(-900 / 500) end one."""
    results = round(90_000 * math.exp(-900 / 500))
    found = described(tmp_path, 2, description, hashed=True, write_records=results)
    visits = found.scenario.query.operator("window")
    assert (visits.kind, visits.gap_s, visits.key_groups) == ("session", 1.0, 128)
    assert visits.keys == pytest.approx(500, rel=0.01) and any("how many keys" in note for note in found.notes)
    rates = nominal_rates(found.scenario.query, found.scenario.workload.arrivals)
    assert rates["window"].out_per_s == pytest.approx(results / 100, rel=0.01)


def dealt_to(number: int, taken: tuple[int, ...]) -> dict[str, Any]:
    """Answers in which subtasks of a vertex have taken so many records."""
    plain = detail(number)
    plain["subtasks"] = [{**plain["subtasks"][0], "metrics": {"read-records": each}} for each in taken]
    return {f"job_v{number}_detail.json": plain}


@pytest.mark.parametrize("description", ["TumblingProcessingTimeWindows(2000)", "ProcessingTimeSessionWindows(2000)"])
@pytest.mark.parametrize("taken", [(1000, 1000, 1000, 1000), (0, 4000, 0, 0), (500, 1500, 0, 2000)])
def test_a_window_before_its_sink_has_keys_where_its_subtasks_got_records(
    description: str, taken: tuple[int, ...], tmp_path: Path
) -> None:
    """Keys of a window chained to its sink are spread as its subtasks' records, as its results are not counted."""
    job, changed = job_at(100.0), plan()
    del job["vertices"][3]
    job["vertices"][2] |= {"parallelism": 4}
    job["vertices"][2]["metrics"]["write-records"] = 0
    changed["plan"]["nodes"] = [each for each in changed["plan"]["nodes"] if each["id"] != "v3"]
    node = next(each for each in changed["plan"]["nodes"] if each["id"] == "v2")
    node["description"] = f"Window({description}, Sum)<br/>+- Sink: Print<br/>"
    found = imported(tmp_path, **{"job": job, "job_jobs_id_plan.json": changed, **dealt_to(2, taken)})
    window, skew = found.scenario.query.operator("window"), found.scenario.workload.keys.get("window")
    by_group = window.values_by_key_group(128) / window.counted if skew is None else skew.by_group(128)
    shares = np.bincount(contiguous(128, 4), by_group, minlength=4)
    assert shares.tolist() == pytest.approx([each / sum(taken) for each in taken])
    assert sum("as its results do not say" in note for note in found.notes) == 1
    if window.kind == "session":  # of each key a record comes within the gap of 2 s
        assert window.counted == pytest.approx(2.0 * found.readings[2]["in_per_s"], abs=64)
    assert "groups do not explain" not in " ".join(found.notes)


def test_results_of_fewer_groups_than_subtasks_that_get_records_do_not_decide(tmp_path: Path) -> None:
    """Results of too few groups (a filter behind the window, a window longer than the import) do not decide."""
    for results, groups, words in ((50, 2, "tell of 1 groups, but 2"), (0, 128, "one a key group")):
        job = with_metrics(2, write_records=results)
        found = imported(tmp_path / str(results), job=job, **dealt_to(2, (450, 450)))
        assert found.scenario.query.operator("window").groups == groups
        assert sum(words in note for note in found.notes) == 1


def test_of_calls_the_owner_says_how_long_they_take(tmp_path: Path) -> None:
    found = described(tmp_path, 1, "async wait operator<br/>", hashed=False)
    call = found.scenario.query.operator("parse-clean")
    assert (call.kind, call.latency_s, call.capacity, call.service_time_s) == ("async", 0.0, 100, None)
    assert "busy" not in found.readings[1], "it holds waits for a place"
    assert sum("how long a call takes" in note for note in found.notes) == 1
    assert scenario_file.parse_scenario(scenario_file.dump(found.scenario), "text") == found.scenario


def test_what_is_keyed_has_key_groups(tmp_path: Path) -> None:
    keyed = described(tmp_path, 1, "count<br/>", hashed=True).scenario.query.operator("parse-clean")
    assert (keyed.kind, keyed.key_groups, keyed.selectivity) == ("map", 128, pytest.approx(0.9))


@pytest.mark.parametrize(
    ("description", "hashed", "note"),
    [
        ("Interval Join<br/>", True, "taken as a map of selectivity 0.9, as at these rates"),
        ("TumblingProcessingTimeWindows<br/>", False, "taken as a filter of selectivity 0.9, as at these rates"),
        ("parse<br/>+- clean<br/>", False, ""),
    ],
)
def test_kinds_that_cannot_be_read_are_noted(description: str, hashed: bool, note: str, tmp_path: Path) -> None:
    told = [each for each in described(tmp_path, 1, description, hashed).notes if "does not tell what it does" in each]
    assert [each.partition("; ")[2] for each in told] == ([note] if note else [])


def test_a_sink_chained_to_what_cannot_be_read_is_noted(tmp_path: Path) -> None:
    for description, count in (("Interval Join<br/>+- Sink: Writer<br/>", 1), ("Sink: Writer<br/>", 0)):
        found = described(tmp_path, 3, description, hashed=True)
        assert found.scenario.query.operator("Writer").kind == "sink"
        assert sum("taken as a sink" in note for note in found.notes) == count


def test_assumed_networks_and_arrivals_are_noted(tmp_path: Path) -> None:
    found = imported(tmp_path)
    words = " ".join(found.notes)
    assert "bandwidth_mbps 10000 and latency_ms 0.1 of the network are assumed" in words
    assert "arrivals are taken as constant" in words


def test_missing_metrics_are_noted_not_invented(tmp_path: Path) -> None:
    job = with_metrics(1, accumulated_busy_time="NaN")
    found = imported(tmp_path, **{"job": job, "overview.json": None, "job_v1_detail.json": None})
    assert found.scenario.query.operator("parse-clean").service_time_s is None
    words = " ".join(found.notes)
    assert "no busy time" in words and "version of Flink is unknown" in words and "dealt to the machines" in words


def test_names_in_any_letters_and_twice_the_same_are_told(tmp_path: Path) -> None:
    job = job_at(100.0)
    for vertex, name in zip(job["vertices"], ("Source: Händler → Kasse", "Map", "Map", "顧客"), strict=True):
        vertex["name"] = name
    found = imported(tmp_path, job=job)
    named = [each.name for each in found.scenario.query.operators]
    assert named[:4] == ["Händler__Kasse", "Map", "Map#2", "顧客"]
    words = " ".join(found.notes)
    assert "Kasse is called Händler__Kasse" in words and "Map is called Map#2" in words
