"""Mistakes of users: one line that names the mistake and its place, exit code 2, and nothing half-written."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
import typer

from scenarios.files import scenario_file
from scenarios.questions import kept
from streamtwin import options
from streamtwin.cli.terminal import scenario_of
from tests.commands import refused, twin
from twin.errors import BadInput, error_location
from twin.files import stamped

MISTAKES = [
    (["rnu", "smart-grid"], "Did you mean 'run'?"),
    (["run"], "Missing argument 'SCENARIO'"),
    (["run", "smart-grit"], "did you mean 'smart-grid'?"),
    (["run", "none.yaml"], "none.yaml does not exist"),
    (["run", "smart-grid", "--sed", 3], "--seed"),
    (["run", "smart-grid", "--seed", "x"], "got 'x'"),
    (["run", "smart-grid", "--horizon", "soon"], "got 'soon'"),
    (["run", "smart-grid", "--horizon", "-4"], "--horizon"),
    (["run", "smart-grid", "--precision", "90%"], "from 0.01% to 50%"),
    (["run", "smart-grid", "--set", "run.horizon=3"], "did you mean 'horizon_s'?"),
    (["run", "smart-grid", "--set", "query.operators.parce.selectivity=3"], "did you mean 'parse'?"),
    (["run", "smart-grid", "--set", "plan.placement.parse=moon"], "'moon'"),
    (["run", "smart-grid", "--set", "nonsense"], "PATH=VALUE"),
    (["show", "smart-grit"], "did you mean 'smart-grid'?"),
    (["optimize", "smart-grid", "--optimizer", "loca-search"], "did you mean 'local-search'?"),
    (["optimize", "smart-grid", "--objective", "speed"], "unknown objective 'speed'"),
    (["optimize", "smart-grid", "--cost-model", "rats"], "did you mean 'rates'?"),
    (["optimize", "smart-grid", "--estimates", 0], "got '0'"),
    (["validate", "smart-grid", "--optimizers", "governer"], "did you mean 'governor'?"),
    (["validate", "smart-grid", "--optimizers", ","], "names none"),
    (["validate", "smart-grid", "--objective", "speed"], "unknown objective 'speed'"),
    (["validate", "smart-grid", "--cost-model", "rates,rats"], "did you mean 'rates'?"),
    (["validate", "smart-grid", "--set", "run.sed=1"], "did you mean 'seed'?"),
    (["optimize", "smart-grid", "--set", "run.sed=1"], "did you mean 'seed'?"),
    (["show", "smart-grid", "--set", "run.sed=1"], "did you mean 'seed'?"),
    (["profile", "smart-grid", "--set", "run.sed=1"], "did you mean 'seed'?"),
    (["corpus", "c", "--runs", 3, "--set", "run.seed=1"], "name one with --scenario"),
    (["corpus", "c", "--runs", 3, "--scenario", "failover"], "add --set 'events=[]'"),
    (["run", "smart-grid", "--policy", "ds1"], "did you mean 'ds2'?"),
    (["run", "smart-grid", "--policy", "ds2", "--set", "policy.margins=1"], "did you mean 'margin'?"),
    (["run", "smart-grid", "--policy", "ds2", "--set", "policy.margin=1"], "margin < target_utilisation"),
    (["train", "nowhere", "m", "--metrics", "throughput"], "did you mean 'throughput_per_s'?"),
    (["train", "nowhere", "m", "--metrics", "success,success"], "named twice"),
    (["train", "nowhere", "m", "--preset", "paperr"], "paper"),
    (["import", "run-graf", "x"], "Did you mean 'run-graph'?"),
    (["import", "run-graph", "none.graph"], "none.graph cannot be read"),
    (["validate-runs", "nowhere"], "nowhere is not a folder"),
    (["corpus", "c", "--runs", 0], "got '0'"),
    (["profile", "edge-filter", "--percentile", 120], "percentile must be from 0 to 100, got 120"),
    (["profile", "edge-filter", "--samples", 0], "got '0'"),
    (["optimize", "edge-filter", "--percentile", 20], "give --profiled or --profile FILE too"),
    (["optimize", "edge-filter", "--profile", "none.json"], "none.json cannot be read"),
    (["optimize", "edge-filter", "--profile", "none.json", "--profiled"], "give one of them"),
    *((["run", "smart-grid", f"--precision={text}"], "--precision") for text in ("two", "0", "-3%", "nan", "%")),
    (["run", "smart-grid", "--fidelity=exact"], "leave it out: every run is exact"),
]


def test_options_in_seconds_and_shares_take_units():
    assert [options.seconds(text) for text in ("90", "500ms", "2min")] == [90.0, 0.5, 120.0]
    assert [options.share(text) for text in ("0.2", "20%")] == [0.2, 0.2]
    for parser, text in ((options.seconds, "2mins"), (options.share, "20s")):
        with pytest.raises(typer.BadParameter, match="write"):
            parser(text)


def test_options_are_checked_once_all_are_applied() -> None:
    """A warm-up that needs the longer run of another option is no mistake; one beyond both names both."""
    made = scenario_of("edge-filter", ["run.warmup_s=700"], horizon_s=1300.0)
    assert (made.run.warmup_s, made.run.horizon_s) == (700.0, 1300.0)
    assert scenario_of("edge-filter", ["run.horizon_s=70"], horizon_s=50.0).run.horizon_s == 50.0
    with pytest.raises(BadInput, match=r"--set, --horizon: run: warmup_s must be < horizon_s \(600"):
        scenario_of("edge-filter", ["run.warmup_s=700"], horizon_s=600.0)
    with pytest.raises(BadInput, match=r"--set run\.warmpu_s: .*did you mean 'warmup_s'"):
        scenario_of("edge-filter", ["run.warmpu_s=700"], horizon_s=1300.0)


@pytest.mark.slow
@pytest.mark.parametrize(("arguments", "expected"), MISTAKES, ids=lambda value: " ".join(map(str, value))[:40])
def test_mistake_is_one_line_and_2(arguments, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    line = refused(*arguments)
    assert expected in line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "expected", "lines"),
    [
        ("a: [1, 2", "line", 1),
        ("query: {}\nquery: {}\n", "line 2", 1),
        ("[]", "mapping", 1),
        ("name: x\nqeury: {}\n", "did you mean 'query'?", 1 + len(["cluster", "plan", "workload", "qeury"])),
    ],
)
def test_broken_file_is_a_line_a_mistake_and_2(text, expected, lines, tmp_path):
    path = tmp_path / "broken.yaml"
    path.write_text(text)
    done = twin("run", path, "--json")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == lines
    assert expected in done.stderr
    assert str(path) in done.stderr.splitlines()[0]


FILE = """name: two
query:
  operators:
    - {name: s, kind: source}
    - {name: out, kind: sink}
  streams:
    - {producer: s, consumer: out}
cluster:
  hosts:
    - {name: h, cpu_percent: 100, ram_mb: 2000, bandwidth_mbps: 100, latency_ms: 1}
plan:
  placement:
    s: h
    out: h
workload:
  arrivals:
    s: {law: poisson, rate_per_s: 9}
events:
  - {kind: slow-down, at_s: 1, host: h, factor: 2}
  - {kind: scale, at_s: 2, operator: s, placement: [h, h]}
"""


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("", "", 20),  # a source cannot be scaled
        ("out: h\n", "out: far\n", 14),
        ("out: h\n", "out: h\n    ghost: h\n", 15),
        ("consumer: out", "consumer: outt", 7),
        ("    s: {law", "    t: {law", 17),
        ("host: h,", "host: g,", 19),
    ],
)
def test_a_mistake_between_parts_has_its_line(old: str, new: str, line: int) -> None:
    with pytest.raises(BadInput, match=rf"line {line}: "):
        scenario_file.parse_scenario(FILE.replace(old, new, 1) if old else FILE, "two.yaml")


def test_a_mistake_of_an_event_says_which_event():
    with pytest.raises(BadInput, match=r"events\.1 \(scale of s at 2 s\): 's' is a source"):
        scenario_file.parse_scenario(FILE, "two.yaml")


def test_what_points_nowhere_has_no_place() -> None:
    assert error_location("a sentence about 'h'", {"name": "h"}, ()) == ()
    assert error_location("plan.placements.x: no", {"plan": {"placement": {}}}, ()) == ("plan",)
    assert error_location("events.7 (scale of x at 5 s): 'x'", {"events": [1]}, ()) == ("events",)
    assert error_location("repeats 'b'", {"a": [{"name": "b"}]}, ("a",)) == ("a", 0, "name")


# what the system refuses ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_one_line_and_the_command_goes_on_later(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ("whatif", "edge-filter", "--vary", "load=1,1.1", "--replications", "2", "--quiet", "--json")
    whole = twin(*asked, "--out", tmp_path / "whole").stdout
    with monkeypatch.context() as patch:
        lines = iter(range(2))

        def full(body: dict[str, object]) -> str:
            if next(lines, None) is None:
                raise OSError(code, os.strerror(code))
            return stamped(body)

        patch.setattr(kept, "stamped", full)
        done = twin(*asked, "--out", tmp_path / "again")
    assert (done.returncode, done.stdout) == (1, "")
    said = f"the disk is full ({os.strerror(code)}); free some space, and give the same command again"
    assert done.stderr == f"twin: {said}\n"
    assert twin(*asked, "--out", tmp_path / "again").stdout == whole


def test_a_folder_in_the_place_of_a_file_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "out" / kept.FILE).mkdir(parents=True)
    done = twin("whatif", "edge-filter", "--vary", "load=1,1.1", "--replications", "2", "--out", tmp_path / "out")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1].startswith("twin: ")
    assert str(tmp_path / "out") in done.stderr and "internal error" not in done.stderr
