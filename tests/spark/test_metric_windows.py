"""Tests of windows of metrics by Structured Streaming against the same windows summed up in plain Python."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from spark.metric_windows import Series, watch
from streamtwin.connect.belief import parsed
from streamtwin.connect.shadow import Shadow
from tests.streamtwin.shadow_jobs import WINDOW_S, crossing, series_of, write_metrics
from twin.errors import BadInput

pytestmark = pytest.mark.spark
HEAD = "time,metric,value,operator"


def windows(spark: SparkSession, folder: Path, checkpoint: Path, **options: object) -> list[Series]:
    told: list[Series] = []
    settings = {"window_s": WINDOW_S, "late_s": 3.0, "once": True, **options}
    watch(spark, folder, checkpoint, parsed, told.extend, **settings)
    return told


@pytest.mark.slow
def test_windows_are_those_of_the_samples_and_nothing_is_told_twice(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "metrics"
    files = write_metrics(crossing().with_run(horizon_s=32, warmup_s=2), folder)
    late = folder / "late.parquet"  # within the lateness of the samples that have come
    pq.write_table(pa.table({"time": [29.5], "metric": ["cpu"], "value": [0.25], "host": ["spare"]}), late)
    (folder / ".writing.csv").write_text("not yet")
    expected = series_of([*files, late])
    found = windows(spark, folder, tmp_path / "checkpoint", late_s=0.0)
    assert found == expected
    (folder / "more.csv").write_text(f"{HEAD}\n41,numRecordsIn,1,in\n29,numRecordsIn,1,in")
    said: list[str] = []
    more = windows(spark, folder, tmp_path / "checkpoint", late_s=0.0, note=said.append)
    assert {each.start_s for each in more} == {30.0}
    assert said == ["1 samples or more came too late for their windows and do not count; see --late"]


@pytest.mark.slow
def test_a_bad_file_is_named_and_mended(spark: SparkSession, tmp_path: Path) -> None:
    folder, bad = tmp_path / "metrics", tmp_path / "metrics" / "b.csv"
    folder.mkdir()
    (folder / "a.csv").write_text(f"{HEAD}\n1,numRecordsIn,1,in\n9,numRecordsIn,17,in")
    bad.write_text(f"{HEAD}\n25,numRecordsIn,many,in")
    with pytest.raises(BadInput, match=r"b\.csv, line 2: value must be a number such as 0.5, got 'many'"):
        windows(spark, folder, tmp_path / "checkpoint")
    bad.write_text(f"{HEAD}\n25,numRecordsIn,33,in")
    (found,) = windows(spark, folder, tmp_path / "checkpoint")
    assert (found.start_s, found.first, found.last) == (0.0, 1.0, 17.0)


def twin_in(out: Path) -> Shadow:
    return Shadow(crossing(), out, WINDOW_S, 60.0, 10)


def shadow(spark: SparkSession, folder: Path, out: Path, once: bool = True) -> None:
    options = {"window_s": WINDOW_S, "late_s": 3.0, "files_a_batch": 8, "every_s": 0.1}
    watch(spark, folder, out / "checkpoint", parsed, twin_in(out).told, once=once, **options)


def rows(out: Path) -> dict[str, bytes]:
    return {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*.jsonl")}


@pytest.mark.slow
def test_a_killed_shadow_goes_on_to_the_same_rows(spark: SparkSession, tmp_path: Path) -> None:
    series = series_of(write_metrics(crossing(), tmp_path / "metrics"))
    twin_in(tmp_path / "whole").told([each for each in series if each.start_s < 40.0])  # later ones may not be over
    program = [sys.executable, "-m", "tests.spark.shadowing", str(tmp_path / "metrics"), str(tmp_path / "killed")]
    with (tmp_path / "said").open("w") as said:
        running = subprocess.Popen(program, cwd=Path(__file__).parents[2], stdout=said, stderr=said)
        while running.poll() is None and len(rows(tmp_path / "killed")) < 3:
            time.sleep(0.02)
        assert running.poll() is None, (tmp_path / "said").read_text()
        os.kill(running.pid, signal.SIGKILL)
        running.wait()
    assert 0 < len(rows(tmp_path / "killed")) < len(rows(tmp_path / "whole"))
    shadow(spark, tmp_path / "metrics", tmp_path / "killed")
    assert rows(tmp_path / "killed") == rows(tmp_path / "whole")
    assert any(name.startswith("alerts") for name in rows(tmp_path / "whole"))
