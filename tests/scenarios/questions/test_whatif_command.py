"""`twin whatif` and `twin compare` as a user meets them: real processes, interrupted and resumed."""

from __future__ import annotations

import csv
import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from scenarios.files import scenario_file
from tests.commands import ROOT, hears_ctrl_c, refused, twin
from tests.scenarios.questions.jobs import shop
from tests.twin import worlds
from twin.scenario import Scenario
from twin.spec import parse

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


def two_managers(path: Path, **more: object) -> Path:
    """File of a job whose map takes a millisecond, at 2,400 records a second, on two task managers of two cores."""
    hosts = [host | {"cpu_percent": 200} for host in (worlds.HOST | {"name": "tm-1"}, worlds.HOST | {"name": "tm-2"})]
    operators = [worlds.source("in"), {"name": "work", "kind": "map", "service_time_s": 1e-3}, worlds.sink("out")]
    job = worlds.deployment(
        operators,
        [("in", "work"), ("work", "out")],
        {"in": {"law": "constant", "rate_per_s": 2400}},
        hosts,
        dict.fromkeys(("in", "work", "out"), "tm-1"),
        engine="flink",
    )
    settings = {"horizon_s": 20, "warmup_s": 5, "period_s": 1}
    path.write_text(scenario_file.dump(parse(Scenario, {**dict(job), "name": "two", "run": settings, **more})))
    return path


def test_each_variant_says_where_it_runs_and_what_binds(tmp_path):
    """Work needs 2.4 cores: two subtasks are too few, three are 80 % busy. On tm-1 alone, two cores are too few."""
    file = two_managers(tmp_path / "two.yaml")
    asked = ("whatif", file, "--vary", "subtasks of work=1..3", "--replications", 2, "--workers", 1)
    first, two, three = (each for each in json.loads(twin(*asked, "--json").stdout)["variants"])
    assert [each["placement"]["work"] for each in (first, two, three)] == [
        {"tm-1": 1},
        {"tm-1": 1, "tm-2": 1},
        {"tm-1": 2, "tm-2": 1},
    ]
    assert first["placement"]["in"] == three["placement"]["in"] == {"tm-1": 1}
    assert (first["binds"], two["binds"]) == (["operator work (100% busy)"],) * 2
    assert (three["binds"], three["fullest"]) == ([], "operator work (80% busy)")
    assert [each["full"] for each in (first, two, three)] == [["work"], ["work"], []]
    shown = [re.split(r"\s{2,}", line.strip()) for line in twin(*asked).stdout.splitlines()]
    said = [(words[0], words[-1]) for words in shown]
    assert [where for what, where in said if what == "work on"] == ["tm-1", "tm-1, tm-2", "tm-1 x 2, tm-2"]
    assert [words[:15] for what, words in said if what == "binds"] == [
        "operator work (",
        "operator work (",
        "nothing; operat",
    ]
    assert not any(what == "in on" for what, _ in said)
    alone = json.loads(twin(*asked, "--on", "tm-1", "--json").stdout)["variants"][2]
    assert alone["placement"]["work"] == {"tm-1": 3}
    assert any(each.startswith("CPU of tm-1 (") for each in alone["binds"])


def test_what_is_full_at_the_end_binds_though_it_was_not_on_average(tmp_path):
    """A fifth of the rate for three quarters of the time, and then all of it."""
    event = {"kind": "rate-change", "at_s": 16, "source": "in", "factor": 5}
    arrivals = {"arrivals": {"in": {"law": "constant", "rate_per_s": 480}}}
    file = two_managers(tmp_path / "two.yaml", workload=arrivals, events=[event])
    asked = ("whatif", file, "--vary", "subtasks of work=3", "--replications", 2, "--workers", 1, "--json")
    first, three = json.loads(twin(*asked).stdout)["variants"]
    busy = (11 * 0.48 + 4) / 15  # from 5 s to 20 s
    (words,) = first["binds"]
    share = re.fullmatch(r"operator work \((\d+)% busy, full at the end\)", words)
    assert share is not None and int(share[1]) == pytest.approx(100 * busy, abs=2)
    assert three["binds"] == []


def test_questions_take_a_horizon(tmp_path):
    file = two_managers(tmp_path / "two.yaml")
    late = "kind: slow-down, at_s: 15, host: tm-1, factor: 2"
    for command in (("whatif", file), ("compare", file, file), ("sensitivity", file, "--input", "load=0.5..1")):
        assert "the end of the run, 12 s" in refused(*command, "--event", late, "--horizon", "0.2min")
    assert "to 12 s" in refused("dry-run", file, "--rescale", "work=2", "--at", 15, "--horizon", 12)
    asked = ("capacity", file, "--find-min", "subtasks of work", "--predict-only", "--json")
    assert [json.loads(twin(*asked, *more).stdout)["run_s"] for more in ((), ("--horizon", "2min"))] == [20, 120]


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
