"""Recordings as arrival laws: the very times, rates as a staircase, bad files explained."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from scenarios.files import scenario_file
from scenarios.files.scenario_file import set_value
from tests.twin.arrivals import RATES, arrived, broker_of, clock_of, counts, law_of, times
from tests.twin.worlds import chain, simulated
from twin.errors import BadInput
from twin.randomness import random_stream


def recorded(path: Path, text: str) -> dict[str, Any]:
    path.write_text(text)
    return {"law": "replay", "path": str(path)}


def times_file(path: Path, times: np.ndarray) -> dict[str, Any]:
    return recorded(path, "time_s\n" + "\n".join(map(repr, times.tolist())) + "\n")


TIMES = np.cumsum(random_stream(3, "times").exponential(0.0025, 2000)) + 1e6
"""Times of more records than a clock gives at a time."""


@pytest.mark.parametrize("parallelism", [1, 3])
def test_replayed_records_come_exactly_when_recorded(tmp_path: Path, parallelism: int) -> None:
    law = law_of(times_file(tmp_path / "times.csv", TIMES) | {"loop": False})
    clocks = [clock_of(law, subtask=k, parallelism=parallelism) for k in range(parallelism)]
    got = sorted(at_s for each in clocks for at_s in times(each, 100.0))
    assert got == pytest.approx(TIMES - TIMES[0], abs=1e-9)
    assert law.mean_rate_per_s == pytest.approx(1999 / (TIMES[-1] - TIMES[0]))
    assert law.gap_scv == pytest.approx(1, abs=0.2)


def test_a_replay_that_is_far_behind_keeps_every_time(tmp_path: Path) -> None:
    world, broker = broker_of(times_file(tmp_path / "times.csv", TIMES) | {"loop": False})
    world.advance(3.0)
    relative = TIMES - TIMES[0]
    assert broker.arrived == (relative <= 3.0).sum()
    world.advance(20.0)
    assert broker.hand_over() == pytest.approx(relative[broker.taken :], abs=1e-9)


def test_replay_in_a_simulation_counts_as_recorded(tmp_path: Path) -> None:
    data = times_file(tmp_path / "times.csv", TIMES)
    relative = TIMES - TIMES[0]
    want = np.histogram(relative, bins=np.arange(0, 5))[0]
    run = simulated(chain([], data), horizon_s=4, period_s=1)
    assert (arrived(run) == want).all()


def test_speed_factor_start_and_loop(tmp_path: Path) -> None:
    base = recorded(tmp_path / "times.csv", "time_s\n10\n11\n13\n") | {"loop": True}  # one cycle: 4.5 s

    def played(**more: Any) -> list[float]:
        return list(times(clock_of(law_of(base | more)), 9.0))

    assert played() == [0, 1, 3, 4.5, 5.5, 7.5, 9.0]
    assert played(speed=2, loop=False) == [0, 0.5, 1.5]
    assert played(rate_factor=2, loop=False) == [0, 0, 1, 1, 3, 3]
    assert played(start_s=10.5, loop=False) == [0.5, 2.5]
    assert played(start_s=10.5, loop=True)[:3] == [0.5, 2.5, 4.5]


def test_recorded_rates_are_a_staircase(tmp_path: Path) -> None:
    law = law_of(recorded(tmp_path / "rates.csv", RATES))
    cycle_s = 4 + 4 / 3
    assert law.mean_rate_per_s == pytest.approx((100 + 700 + 0 + 100 * 4 / 3) / cycle_s)
    edges = np.array([cycle * cycle_s + at for cycle in range(8) for at in (0, 2, 3, 4)])
    want = np.tile([100, 700, 0, 400 / 3], 8)[: len(edges) - 1]
    got = counts(clock_of(law), edges)
    assert got[want == 0].sum() < 1e-6
    some = want > 0
    assert ((got - want)[some] ** 2 / want[some]).sum() < some.sum() + 4 * math.sqrt(2 * some.sum())
    once = law_of(recorded(tmp_path / "once.csv", RATES) | {"loop": False})
    assert counts(clock_of(once), np.array([0.0, cycle_s + 0.1, 1e9]))[1] < 1e-6


def test_parquet_and_csv_are_the_same(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"time_s": TIMES}), tmp_path / "times.parquet")
    one = law_of({"law": "replay", "path": str(tmp_path / "times.parquet")})
    other = law_of(times_file(tmp_path / "times.csv", TIMES))
    assert list(times(clock_of(one), 9.0)) == list(times(clock_of(other), 9.0))


START_S = 1_404_172_800  # 2014-07-01 in UTC


@pytest.mark.parametrize("unit", [1, 1000, 10**6, 10**9])
def test_times_since_1970_are_read_in_any_unit(tmp_path: Path, unit: int) -> None:
    relative = np.array([0, 1, 3, 7])
    plain = law_of(times_file(tmp_path / "plain.csv", relative.astype(float)))
    dated = "\n".join(str((START_S + int(at_s)) * unit) for at_s in relative)
    law = law_of(recorded(tmp_path / "dated.csv", f"timestamp\n{dated}\n"))
    assert list(times(clock_of(law), 30.0)) == pytest.approx(list(times(clock_of(plain), 30.0)), abs=1e-6)


@pytest.mark.parametrize("form", ["%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S+00:00"])
@pytest.mark.parametrize("name", ["timestamp", "Time", "date"])
def test_counts_by_date_are_rates_from_each_date_on(tmp_path: Path, form: str, name: str) -> None:
    """Half-hours as exports have them, which another file says as rates; other columns are passed over."""
    found = [10_844, 8_127, 0, 4_656]
    dates = [datetime.fromtimestamp(START_S + 1800 * row, UTC).strftime(form) for row in range(4)]
    rows = "".join(f"{when},x,{count}\n" for when, count in zip(dates, found, strict=True))
    counted = law_of(recorded(tmp_path / "counted.csv", f"{name},note,value\n{rows}") | {"counts": "value"})
    rows = "".join(f"{1800 * row},{count / 1800!r}\n" for row, count in enumerate(found))
    rated = law_of(recorded(tmp_path / "rated.csv", f"time_s,rate_per_s\n{rows}"))
    assert counted.mean_rate_per_s == pytest.approx(sum(found) / 7200) == pytest.approx(rated.mean_rate_per_s)
    assert counted.peak_rate_per_s == pytest.approx(rated.peak_rate_per_s)
    edges = np.arange(0, 7201, 1800)
    assert counts(clock_of(counted), edges) == pytest.approx(counts(clock_of(rated), edges), abs=1)


@pytest.mark.parametrize(
    ("text", "more", "expected"),
    [
        ("", {}, ["header"]),
        ("time_s\n", {}, ["no rows", "record"]),
        ("1.0\n2.0\n", {}, ["columns", "time_s"]),
        ("time_s,speed\n1,2\n", {}, ["columns", "rate_per_s"]),
        ("time_s\n2\n1\n", {}, ["row 2", "sort"]),
        ("time_s,rate_per_s\n1,5\n1,6\n", {}, ["row 2 is 1", "leave one out"]),
        ("time_s\n1\nnan\n", {}, ["row 2", "finite"]),
        ("time_s\n1\ninf\n", {}, ["row 2", "finite"]),
        ("time_s\n1\nsoon\n", {}, ["numbers"]),
        ("time_s,rate_per_s\n1,-5\n", {}, ["row 1", ">= 0"]),
        ("time_s,rate_per_s\n1,0\n2,0\n", {}, ["0 throughout"]),
        ("time_s,rate_per_s\n1,1e308\n2,1\n", {}, ["row 1", "1e+308", "<= 1e+09"]),
        ("time_s,rate_per_s\n1,1e9\n2,1\n", {"speed": 2}, ["2e+09 records a second", "most"]),
        ("time_s\n1\n1e308\n", {}, ["row 2", "seconds"]),
        ("time_s\n-1e308\n1e308\n", {}, ["row 1", "seconds"]),
        ("time_s\n1\n", {}, ["two or more"]),
        ("time_s\n1\n1\n", {}, ["over in 0 s"]),
        ("time_s\n1\n5\n", {"start_s": 6}, ["after the last row", "earlier"]),
        ("time_s\n1\n5\n", {"start_s": 3}, ["two or more"]),
        ("timestamp,value\n2014-07-01,5\n2014-07-02,6\n", {}, ["write counts: value"]),
        ("timestamp,value\n2014-07-01,5\n2014-07-02,6\n", {"counts": "valeu"}, ["did you mean 'value'"]),
        ("timestamp,value\n2014-07-02,5\n2014-07-01,6\n", {"counts": "value"}, ["row 2 is 2014-07-01", "sort"]),
        ("timestamp,value\nsoon,5\nlater,6\n", {"counts": "value"}, ["row 1 is 'soon'", "dates"]),
        ("timestamp,value\n2014-07-01,5\n", {"counts": "value"}, ["one row"]),
        ("timestamp,value\n2014-07-01,5\n2014-07-02,-6\n", {"counts": "value"}, ["row 2 is -6", ">= 0"]),
        ("rate_per_s\n5\n6\n", {}, ["it needs time_s"]),
        ("time,date,value\n1,2,3\n2,3,4\n", {"counts": "value"}, ["it needs time_s"]),
        ("date,value\n20141130,5\n20141201,6\n", {"counts": "value"}, ["row 1 is 20141130", "dates as"]),
        ("date,value\n2014113000,5\n2014113001,6\n", {"counts": "value"}, ["row 1 is 2014113000", "dates as"]),
        ("date,value\n201411300000,5\n201411300030,6\n", {"counts": "value"}, ["row 1 is 201411300000"]),
        ("date,value\n20141130000000,5\n20141130003000,6\n", {"counts": "value"}, ["row 1 is 20141130000000"]),
    ],
)
def test_bad_recordings_are_explained(tmp_path: Path, text: str, more: dict[str, Any], expected: list[str]) -> None:
    with pytest.raises(BadInput) as error:
        law_of(recorded(tmp_path / "r.csv", text) | more)
    assert all(part in str(error.value) for part in ["arrivals.source", str(tmp_path / "r.csv"), *expected])
    assert "\n" not in str(error.value)


def test_a_column_whose_name_is_no_text_is_bad_input(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_bytes(b"time_s,\xf4\n1,2\n2,3\n")
    with pytest.raises(BadInput, match=r"r\.csv is no CSV or Parquet file with a header.*name another file"):
        law_of({"law": "replay", "path": str(tmp_path / "r.csv")})


def test_a_path_that_no_file_can_have_is_bad_input() -> None:
    with pytest.raises(BadInput, match=r"cannot be read.*check the path"):
        law_of({"law": "replay", "path": "rates\0.csv"})


def test_a_recording_lies_beside_its_scenario_file(tmp_path: Path) -> None:
    text = scenario_file.dump(scenario_file.load("edge-filter")).replace(
        "law: poisson, rate_per_s: 800", "law: replay, path: in.csv"
    )
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(BadInput, match=r"in\.csv cannot be read: .*; check the path"):
        scenario_file.load(str(tmp_path / "mine.yaml"))
    (tmp_path / "in.csv").write_text(RATES)
    loaded = scenario_file.load(str(tmp_path / "mine.yaml"))
    assert scenario_file.parse_scenario(scenario_file.dump(loaded), "dumped") == loaded
    assert set_value(loaded, "workload.arrivals.sensors.speed=2").workload.arrivals["sensors"].speed == 2
