"""`twin whatif` and `twin compare` as a user meets them: real processes, interrupted and resumed."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from scenarios.files import scenario_file
from tests.commands import ROOT, hears_ctrl_c, refused, twin
from tests.scenarios.questions.jobs import shop

RATE = "workload.arrivals.clicks.rate_per_s"


@pytest.fixture
def job(tmp_path: Path) -> Path:
    path = tmp_path / "shop.yaml"
    path.write_text(scenario_file.dump(shop()))
    return path


def answer(folder: Path) -> dict:
    return json.loads((folder / "answer.json").read_text())


def lines(folder: Path) -> list[str]:
    return (folder / "runs.jsonl").read_text().splitlines()


@pytest.mark.slow
def test_one_document_one_table_one_figure(job, tmp_path):
    question = ["whatif", job, "--vary", f"{RATE}=200,800", "--policy", "ds2", "--replications", 2]
    done = twin(*question, "--out", tmp_path / "a", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document == answer(tmp_path / "a")
    assert document["variants"][0]["variant"] == "as given"
    assert len(document["variants"]) == 5
    assert document["comparisons"] == 4 * 3
    cell = document["variants"][2]["metrics"]["throughput_per_s"]
    assert cell["mean"] == pytest.approx(sum(cell["values"]) / 2)
    rows = list(csv.DictReader((tmp_path / "a" / "table.csv").open()))
    assert len(rows) == 5 * 3
    assert (tmp_path / "a" / "figure.png").read_bytes()[:4] == b"\x89PNG"
    assert done.stderr.index("reading") < done.stderr.index("0 of 10 runs") < done.stderr.index("10 of 10 runs")
    again = twin(*question, "--out", tmp_path / "a", "--workers", 1)
    assert "all known already" in again.stderr
    assert "not significant" in again.stdout and "keeps up" in again.stdout
    other = twin("whatif", job, "--vary", f"{RATE}=200,900", "--out", tmp_path / "a")
    assert other.returncode == 2
    assert "holds the answer to another question" in other.stderr


INTERRUPTED = ("--vary", f"{RATE}=200..900:4", "--replications", "4")
RUNS = 5 * 4


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> Path:
    """Answer of a command that nobody interrupted, by one process."""
    folder = tmp_path_factory.mktemp("undisturbed")
    (folder / "shop.yaml").write_text(scenario_file.dump(shop()))
    assert twin("whatif", folder / "shop.yaml", *INTERRUPTED, "--out", folder / "a", "--workers", 1).returncode == 0
    return folder / "a"


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_interrupted_it_goes_on_and_says_the_same(job, tmp_path, how, undisturbed):
    words = ["whatif", str(job), *INTERRUPTED, "--out", str(tmp_path / "a")]
    command = [sys.executable, "-m", "streamtwin.cli.app", *words, "--workers", "1"]
    first = subprocess.Popen(
        command, cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=hears_ctrl_c
    )
    kept = tmp_path / "a" / "runs.jsonl"
    deadline_s = time.monotonic() + 60
    while not kept.exists() or len(lines(tmp_path / "a")) < 2:
        assert time.monotonic() < deadline_s and first.poll() is None, first.communicate()
        time.sleep(0.01)
    first.send_signal(how)
    errors = first.communicate(timeout=60)[1]
    assert first.returncode == (130 if how == signal.SIGINT else -signal.SIGKILL), errors
    assert how == signal.SIGKILL or "the same command goes on" in errors
    assert "Traceback" not in errors
    assert not (tmp_path / "a" / "answer.json").exists()
    before = lines(tmp_path / "a")
    assert len(before) < RUNS
    kept.write_text("\n".join(before) + '\n["torn')
    assert twin(*words, "--workers", 2).returncode == 0
    assert lines(tmp_path / "a")[: len(before)] == before
    assert len(lines(tmp_path / "a")) == len({json.loads(line)["run"] for line in lines(tmp_path / "a")}) == RUNS
    for name in ("answer.json", "table.csv", "figure.png"):
        assert (tmp_path / "a" / name).read_bytes() == (undisturbed / name).read_bytes()


def test_scenarios_are_compared_with_the_first(job, tmp_path):
    busy = tmp_path / "busy.yaml"
    busy.write_text(scenario_file.dump(shop()).replace("rate_per_s: 400", "rate_per_s: 4000"))
    document = json.loads(twin("compare", job, busy, "--replications", 3, "--json").stdout)
    first, second = document["variants"]
    assert first["backpressured_runs"] == 0 and second["backpressured_runs"] == 3
    assert second["metrics"]["e2e_latency_s.mean"]["words"] == "significantly higher"


def test_what_is_no_question_is_refused(job, tmp_path):
    vary = ("--vary", f"{RATE}=200,300")
    assert "nothing to compare" in refused("whatif", job)
    assert "did you mean" in refused("whatif", job, "--vary", "workload.arrivals.click.rate_per_s=1,2")
    assert "at least 2 runs" in refused("whatif", job, *vary, "--replications", 1)
    assert "give an error from" in refused("whatif", job, *vary, "--precision", "none")
    assert "--workers 0" in refused("whatif", job, *vary, "--workers", 0)
    assert "did you mean 'hosts.w-1.cpu'" in refused("whatif", job, *vary, "--metric", "hosts.w1.cpu")
    assert "unknown metric 'latency'" in refused("whatif", job, *vary, "--metric", "latency")
    words = refused("whatif", job, "--vary", "run.horizon_s=100,1e6")
    assert "twin: run.horizon_s 1,000,000: " in words and "make run.period_s (1) longer" in words
    assert "nothing to compare it with" in refused("compare", job)
    assert "is the same as" in refused("compare", job, job)
    assert "unknown metric 'operators.human.busy'" in refused(
        "compare", job, "smart-grid", "--metric", "operators.human.busy"
    )
    assert "cannot be made" in refused("whatif", job, *vary, "--out", "/proc/none")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    assert "holds something else" in refused("whatif", job, *vary, "--out", tmp_path / "full")
    assert "is a file" in refused("whatif", job, *vary, "--out", job)
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["mine.txt"]
