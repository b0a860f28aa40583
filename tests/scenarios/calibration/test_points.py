"""Tables of operating points: their contents, and those that are refused."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from scenarios.calibration import profile_file
from scenarios.calibration.calibrate import calibrate
from scenarios.calibration.newton import predict
from scenarios.calibration.points import KEEPS_UP, Point, read_points
from scenarios.calibration.profile_file import HeldOut
from scenarios.files import scenario_file
from scenarios.files.scenario_file import set_value
from tests.commands import refused, twin
from tests.scenarios.calibration.engines import at_rates, job, simulated
from twin.errors import BadInput

JOB = job(
    [
        {"kind": "source", "name": "source"},
        {"kind": "map", "name": "map"},
        {"kind": "sink", "name": "sink"},
    ],
    [("source", "map"), ("map", "sink")],
    {"source": 100},
    {"source": "h", "map": "h", "sink": "h"},
)
RATE = "workload.arrivals.source.rate_per_s"
TABLE = """point,operator,host,offered_per_s,in_per_s,out_per_s,busy,cpu,latency_s
low,source,,100,,100,0.01,,
low,map,,,100,100,0.2,,
low,,h,,,,,0.014,
low,,,,,,,,0.02
high,source,,400,,400,0.04,,
high,map,,,400,400,0.8,,
over,source,,1000,,500,0.05,,
over,map,,,500,500,1.0,,
"""


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """Scenario and table of its points, as files."""
    scenario, points = tmp_path / "job.yaml", tmp_path / "points.csv"
    scenario.write_text(scenario_file.dump(JOB))
    points.write_text(TABLE)
    return scenario, points


def test_a_table_says_the_same_as_csv_yaml_and_parquet(files: tuple[Path, Path], tmp_path: Path) -> None:
    points = read_points(files[1], JOB)
    assert [point.name for point in points] == ["low", "high", "over"]
    assert points[0].latency_s == 0.02 and points[0].cpu == {"h": 0.014}
    assert points[2].delivered == {"source": 0.5} and points[2].taken_per_s == {"source": 500, "map": 500}
    files[1].write_text(TABLE.replace("\n", "\r\n"), encoding="utf-8-sig", newline="")  # as Excel saves it
    assert read_points(files[1], JOB) == points
    lines = [line.split(",") for line in TABLE.strip().splitlines()]
    rows = [
        {
            key: cell if key in ("point", "operator", "host") else float(cell)
            for key, cell in zip(lines[0], line, strict=True)
            if cell
        }
        for line in lines[1:]
    ]
    (tmp_path / "points.yaml").write_text(yaml.safe_dump({"points": rows}))
    pq.write_table(
        pa.Table.from_pylist([{**dict.fromkeys(lines[0]), **row} for row in rows]), tmp_path / "points.parquet"
    )
    assert read_points(tmp_path / "points.yaml", JOB) == points == read_points(tmp_path / "points.parquet", JOB)


def test_what_is_offered_comes_evenly_or_at_random_as_the_scenario_says(tmp_path: Path) -> None:
    table = tmp_path / "points.csv"
    table.write_text("point,operator,offered_per_s,out_per_s\na,source,100,100\nb,source,200,200\n")
    for law, scv in (("constant", 0.0), ("poisson", 1.0)):
        job = set_value(JOB, f"workload.arrivals.source={{law: {law}, rate_per_s: 70}}")
        found = [point.scenario.workload.arrivals["source"] for point in read_points(table, job)]
        assert [(each.mean_rate_per_s, each.gap_scv) for each in found] == [(100, scv), (200, scv)]


def test_a_column_with_dots_sets_a_value_of_the_job_at_that_point(tmp_path: Path) -> None:
    table = tmp_path / "points.csv"
    table.write_text('point,operator,busy,plan.placement.map\na,map,0.5,\nb,map,0.25,"[h, h]"\n')
    points = read_points(table, JOB)
    assert [point.scenario.plan.parallelism("map") for point in points] == [1, 2]


HELD_BACK = """point,operator,offered_per_s,out_per_s,backpressured
light,source,100,100,0
capped,source,OFFERED,400,0.6
"""


def test_a_source_that_is_held_back_bears_no_more_than_it_takes_whatever_it_is_offered(tmp_path: Path) -> None:
    """A held-back source bears what it takes, whatever the table has as its offer: that may be what was delivered."""
    table, bears = tmp_path / "points.csv", []
    for offered in ("", "300", "4000"):
        table.write_text(HELD_BACK.replace("OFFERED", offered))
        points = read_points(table, JOB)
        assert bool(points[1].capped) == (offered != "4000") and points[1].delivered["source"] < KEEPS_UP
        bears.append(400.0 * np.exp(predict(calibrate(points).applied(JOB.with_set(RATE, 400.0))).margin["source"]))
    assert bears == pytest.approx([400.0] * 3, rel=0.05)
    for offered in ("400", "400.01"):
        table.write_text(HELD_BACK.replace("OFFERED", offered))
        capped = bool(read_points(table, JOB)[1].capped)
        assert capped == (offered == "400"), "whoever says a rate of his own is believed"


def test_a_point_of_catching_up_is_named(files: tuple[Path, Path]) -> None:
    files[1].write_text(TABLE.replace("high,source,,400,,400,", "high,source,,300,,400,"))
    assert read_points(files[1], JOB)[1].capped == {"source": "took 1.3 times its offer, so it caught up"}


def test_full_channels_are_told_by_markers_alone() -> None:
    """Markers alone show how much channels hold: here a quarter of the profile's, so that they are as much younger."""
    assert JOB.engine.network_memory is not None
    shallow = JOB.engine.model_copy(update={"network_memory": JOB.engine.network_memory.times(0.25)})
    slow = JOB.with_set("query.operators.map.service_time_s", 1e-3)

    def point(rate_per_s: float) -> Point:
        known = slow.with_set("workload.arrivals.source.rate_per_s", rate_per_s)
        run = predict(known.model_copy(update={"engine": shallow}))
        taken = {"source": rate_per_s * run.delivered["source"]}
        return Point(name=f"{rate_per_s:g}", scenario=known, taken_per_s=taken, markers_s=run.markers_s, busy=run.busy)

    found = calibrate([point(100.0), point(2000.0)])
    assert found.hidden["network_memory"] == pytest.approx(0.25, rel=0.02)
    assert next(each for each in found.estimates if each.name == "network_memory").known


@pytest.mark.slow
def test_from_a_table_to_a_scenario_that_runs(files: tuple[Path, Path], tmp_path: Path) -> None:
    scenario, points = files
    profile, calibrated = tmp_path / "profile.yaml", tmp_path / "calibrated.yaml"
    done = twin("calibrate", scenario, points, "--out", profile, "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    found = {each["name"]: each for each in document["estimates"]}["operator map"]
    assert found["low"] <= 2000 <= found["high"] and found["value"] == pytest.approx(2000, rel=0.03)
    assert {each["predictor"] for each in document["held_out"]} >= {"always keeps up", "one cap"}
    used = json.loads(twin("use-profile", scenario, profile, "--out", calibrated, "--json").stdout)
    assert all(each["low"] <= each["predicted"] <= each["high"] for each in used["predictions"])
    dear = json.loads(twin("use-profile", scenario, profile, "--costs", "high", "--json").stdout)
    costs = [each["scenario"]["query"]["operators"][1]["service_time_s"] for each in (used, dear)]
    load = document["intervals"]["load"]
    widest = max(load[name]["factor"] for name in ("operator map", "all costs") if name in load)
    assert costs[1] == pytest.approx(widest * costs[0])
    ran = twin("run", calibrated, "--json", "--set", "workload.arrivals.source.rate_per_s=1000")
    assert json.loads(ran.stdout)["throughput_per_s"] == pytest.approx(500, rel=0.05)


def test_a_profile_of_another_machine_or_job_is_refused(files: tuple[Path, Path], tmp_path: Path) -> None:
    rows = [line + (",machine" if n == 0 else ",m510") for n, line in enumerate(TABLE.strip().splitlines())]
    files[1].write_text("\n".join(rows))
    points = read_points(files[1], JOB)
    (tmp_path / "profile.yaml").write_text(
        profile_file.dump(profile_file.profile_of(JOB, calibrate(points), HeldOut(), points, points[0].machine))
    )
    loaded = profile_file.load(tmp_path / "profile.yaml")
    assert loaded.machine == "m510" and profile_file.applied(loaded, JOB, "m510").query != JOB.query
    with pytest.raises(BadInput, match="fitted on 'm510', not on 'c6525'"):
        profile_file.applied(loaded, JOB, "c6525")
    other = scenario_file.load("word-count")
    with pytest.raises(BadInput, match="cost of operator 'source', which"):
        profile_file.applied(loaded, other)
    text = (tmp_path / "profile.yaml").read_text()
    changed = f"{text}# of Tuesday\n"
    (tmp_path / "profile.yaml").write_text(changed)
    with pytest.raises(BadInput, match="is not as 'twin calibrate' wrote it"):
        profile_file.load(tmp_path / "profile.yaml")
    (tmp_path / "profile.yaml").write_text(changed.partition("\n")[2])
    assert profile_file.load(tmp_path / "profile.yaml") == loaded, "whoever changes it on purpose removes that line"


BAD = {
    "too few": ("point,operator,busy\na,map,0.5", "too few points"),
    "too few rows": ("point,host,cpu\na,h,0.5\nb,h,0.6", "more rows"),
    "nothing of costs": (
        "point,operator,offered_per_s,out_per_s\na,source,100,100\nb,source,50,50",
        "say nothing about costs",
    ),
    "unknown operator": ("point,operator,busy\na,mpa,0.5", "did you mean 'map'"),
    "unknown column": ("point,operator,bsuy\na,map,0.5", "did you mean 'busy'"),
    "NaN": ("point,operator,busy\na,map,NaN", "leave empty what was not measured"),
    "a share above 1": ("point,operator,busy\na,map,500\nb,map,1", "a share is from 0 to 1"),
    "a word": ("point,operator,busy\na,map,much", "must be a number, got 'much'"),
    "negative": ("point,operator,in_per_s\na,map,-5\nb,map,5", "cannot be negative"),
    "of no operator": ("point,busy\na,0.5", "busy needs a name of its operator"),
    "both": ("point,operator,host,busy\na,map,h,0.5", "names an operator and a host"),
    "twice": ("point,operator,busy\na,map,0.5\na,map,0.6", "given twice"),
    "repeats that differ": ("point,operator,busy\na,map,0.2\nb,map,0.9", "points a and b contradict each other"),
    "slow before fast": (
        "point,operator,offered_per_s,out_per_s\na,source,100,50\nb,source,200,199",
        "points a and b contradict each other",
    ),
    "two machines": ("point,operator,machine,busy\na,map,x,0.5\nb,map,y,0.5", "several machines"),
    "no rows": ("point,operator,busy\n", "has no rows"),
    "no table": ("hello", "is no CSV of operating points"),
    "a bad path": ("point,operator,busy,plan.placement.mpa\na,map,0.5,h\nb,map,0.5,h", "did you mean 'map'"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_points_are_one_clear_line(name: str, files: tuple[Path, Path], tmp_path: Path) -> None:
    table, words = BAD[name]
    files[1].write_text(table)
    assert words in refused("calibrate", files[0], files[1], "--out", tmp_path / "new.yaml")
    assert not (tmp_path / "new.yaml").exists()


def test_other_bad_files(files: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "points.parquet").write_text("no")
    assert "not a readable Parquet file" in refused("calibrate", files[0], tmp_path / "points.parquet")
    assert "missing" in refused("calibrate", files[0], tmp_path / "nothing.parquet")
    assert "cannot be read" in refused("calibrate", files[0], tmp_path / "nothing.csv")
    (tmp_path / "runs").mkdir()
    assert "holds no run" in refused("calibrate", files[0], tmp_path / "runs")
    assert "no point is of machine 'x'" in refused("calibrate", *files, "--machine", "x")
    assert "exists" in refused("calibrate", *files, "--out", files[0])


def test_a_reading_that_contradicts_the_others_is_named(files: tuple[Path, Path]) -> None:
    true = scenario_file.parse_scenario(scenario_file.dump(JOB), "job")
    points = [
        simulated(f"x{f}", at_rates(JOB, f), at_rates(true, f), latency_s=None, cpu={}) for f in (100, 200, 300, 400)
    ]
    odd = points[3].busy | {"map": 0.9}
    found = calibrate(
        [
            *points[:3],
            type(points[3])(name="odd", scenario=points[3].scenario, taken_per_s=points[3].taken_per_s, busy=odd),
        ]
    )
    said = next(each for each in found.odd if "odd: busy share of map" in each)
    cores, others = map(float, re.findall(r"([\d.]+) cores, where the others say ([\d.]+)", said)[0])
    assert cores == 0.9, "what was read comes first"
    assert others == pytest.approx(points[3].busy["map"], rel=0.1), "and then what the other points say of it"


@pytest.mark.parametrize(
    ("waiting", "said"), [(True, "subtasks wait while they are busy"), (False, "others take CPU too")]
)
def test_waits_are_not_said_to_be_cpu_of_others(waiting: bool, said: str, files: tuple[Path, Path]) -> None:
    """Waits for a store, in which a map is busy, are told from others' CPU, which is in the host's CPU alone."""
    rows = ["point,operator,host,offered_per_s,in_per_s,out_per_s,busy,cpu"]
    for number, rate in enumerate((50, 100, 200, 400, 800)):
        cpu, waits = 0.5 * rate / 1000, 0.2 * (number % 2)
        rows += [f"{rate},source,,{rate},,{rate},0.001,", f"{rate},map,,,{rate},{rate},{cpu + waiting * waits},"]
        rows += [f"{rate},,h,,,,,{(cpu + (not waiting) * 16 * waits) / 16}"]
    files[1].write_text("\n".join(rows))
    assert f"of the CPU time is unexplained: {said}" in twin("calibrate", *files).stdout
