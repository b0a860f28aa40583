"""Test on a real cluster of which a machine goes down while a question is answered: the answer is the same."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from scenarios.executing import Processes
from tests.spark.on_a_cluster import RUNS, asked, measured
from tests.spark.standalone import standalone
from twin.trace import read_table

pytestmark = [pytest.mark.spark, pytest.mark.slow]
ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the executors in /proc")
def test_a_cluster_that_loses_a_machine_answers_as_this_one_does(tmp_path: Path) -> None:
    runs = tmp_path / "question" / "runs.jsonl"
    (tmp_path / "cluster").mkdir()
    with standalone(tmp_path / "cluster", workers=2) as cluster:
        command = [sys.executable, "-m", "tests.spark.on_a_cluster", cluster.master, str(tmp_path)]
        with (tmp_path / "said").open("w") as said:
            program = subprocess.Popen(command, cwd=ROOT, env=cluster.variables, stdout=said, stderr=said)
        while program.poll() is None and not (runs.exists() and len(runs.read_text().splitlines()) >= RUNS // 2):
            time.sleep(0.05)
        assert program.poll() is None, (tmp_path / "said").read_text()
        left = 2 * RUNS - len(runs.read_text().splitlines())
        cluster.kill(0)
        assert program.wait(240) == 0, (tmp_path / "said").read_text()
    assert left > 0
    assert json.loads((tmp_path / "answer.json").read_text()) == measured(asked(Processes(1)))
    assert len(runs.read_text().splitlines()) == 2 * RUNS  # each once
    chunks = sorted((tmp_path / "corpus" / "chunks").glob("chunk-*"))
    assert (tmp_path / "said").read_text().count("streamtwin.zip/twin/work.py") == 4  # none from elsewhere
    assert sum(read_table(chunk, "runs").num_rows for chunk in chunks) == 8
