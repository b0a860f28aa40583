"""Bad scenario files as a user of `twin run` meets them: exit code 2, one line on stderr, nothing half-written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.commands import refused, twin

ROOT = Path(__file__).resolve().parents[2]
SLIDE = "query.operators.per-page.window.slide_s=1.0e-6"


def with_rate(tmp_path: Path, rate: str) -> Path:
    """Edge filter of the library with its rate replaced by some text."""
    text = (ROOT / "scenarios" / "library" / "edge-filter.yaml").read_text(encoding="utf-8")
    path = tmp_path / "mine.yaml"
    path.write_text(text.replace("rate_per_s: 800", f"rate_per_s: {rate}"), encoding="utf-8")
    return path


def test_a_bad_file_ends_with_2_one_line_and_no_trace(tmp_path):
    said = refused("run", with_rate(tmp_path, "-3"), "--out", tmp_path / "trace")
    assert "workload.arrivals.sensors.rate_per_s" in said and "-3" in said
    assert not (tmp_path / "trace").exists()


def test_a_run_that_would_not_end_ends_with_2_at_once(tmp_path):
    said = refused("run", "failover", "--set", SLIDE, "--horizon", 100_000, "--out", tmp_path / "trace")
    assert "windows of 'per-page'" in said and "its slide longer" in said
    assert not (tmp_path / "trace").exists()


def test_a_run_without_results_warns_and_says_so_in_json(tmp_path):
    result = twin("run", "edge-filter", "--set", "query.operators.hot.selectivity=0", "--horizon", 20, "--json")
    assert result.returncode == 0
    document = json.loads(result.stdout)
    assert document["processing_latency_s"] is None and not document["success"]
    (warning,) = document["warnings"]
    assert "'hot'" in warning and f"warning: {warning}" in result.stderr.splitlines()


@pytest.mark.parametrize("value", [".nan", ".inf", "0", "1e300", "many", "null", "[1]", "{a: 1}", "1e-300"])
def test_no_value_of_a_wrong_kind_gets_through(tmp_path, value):
    assert "workload.arrivals.sensors.rate_per_s" in refused("run", with_rate(tmp_path, value))


@pytest.mark.parametrize(
    ("assignment", "says"),
    [
        ("run.period_s=1e-5", "make run.period_s (1e-05) longer"),
        ("run.period_s=0", "run.period_s"),
        ("run.warmup_s=1e9", "warmup_s must be < horizon_s"),
        ("plan.placement.hot=[]", "plan.placement.hot"),
        ("query.operators.hot.subtasks=2", "write parallelism, or give places in plan.placement"),
        ("query.operators.hot.parallelism=0", "--set query.operators.hot.parallelism: 0; give a whole number from 1"),
        ("query.operators.hto.parallelism=2", "no 'hto' in query.operators; did you mean 'hot'?"),
        ("plan.placement={}", "places nothing for operator 'sensors'"),
        ("plan.placement.hot={edge-1: 200000}", "from 1 to 100000"),
        ("events=[{kind: failure, at_s: 5, host: edge-9}]", "did you mean 'edge-1'?"),
        (
            "cluster.links=[{between: [edge-1, edge-1], bandwidth_mbps: 1, latency_ms: 1}]",
            "connects a node with itself",
        ),
        ("cluster.switches=[x]", "switches without links"),
        ("plan.fused=[[keep]]", "plan.fused.0: should have at least 2 items, has 1"),
        ("plan.fused=keep", "plan.fused: should be a list, got 'keep'"),
        ("workload.arrivals.sensors={law: replay, path: /no/such/file.csv}", "check the path"),
        ("engine.memory.onset=1", ""),
    ],
)
def test_bad_values_of_set(assignment, says):
    assert says in refused("run", "edge-filter", "--set", assignment, "--set", "engine.memory.crash=0.9")


def test_a_scenario_and_a_profile_in_each_others_place_are_told_apart(tmp_path):
    profile, job = tmp_path / "profile.yaml", with_rate(tmp_path, "800")
    profile.write_text("version: 0.1.0\nengine: {}\nestimates: []\n")
    for words, says in ((("use-profile", profile, job), "is a scenario, which comes first"),
                        (("run", profile), "is a calibrated profile; put it into a scenario")):  # fmt: skip
        assert says in refused(*words)


@pytest.mark.parametrize(("options", "said"), [((), True), (("--quiet",), False), (("--json",), False)])
def test_whoever_waits_is_told_how_far_a_long_run_is(monkeypatch, options, said):
    for limit in ("FIRST_S", "LOOK_S", "LONG_S", "TOLD_S"):
        monkeypatch.setattr(f"twin.guards.watch.{limit}", 1e-6)
    found = twin("run", "edge-filter", "--horizon", 200, *options)
    first, *others = [line for line in found.stderr.splitlines() if "of CPU time to go" in line] or ["", ""]
    assert found.returncode == 0
    assert bool(others[0]) == said == ("a long run: " in first and "mostly for " in first)
