"""`twin optimize` on sockets, as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scenarios.files import scenario_file
from tests.commands import twin


@pytest.mark.slow
def test_a_plan_for_eight_sockets_is_written_and_says_what_stops_it(tmp_path: Path) -> None:
    out = tmp_path / "plan.yaml"
    done = twin("optimize", "briskstream-fd", "--optimizer", "rlas", "--time-limit", "3", "--json", "--out", str(out))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["objective"] == "throughput_per_s" and found["status"] == "feasible"
    assert 0.0 < found["predicted"] <= found["bound"] and found["gap"] == pytest.approx(
        found["bound"] / found["predicted"] - 1
    )
    assert "more than this plan bears" in found["message"] and "is full" in found["message"]
    planned = scenario_file.load(str(out))
    assert sum(len(places) for places in planned.plan.placement.values()) > 100
    assert {place.host for name in planned.plan.placement for place in planned.plan.locations(name)} == {"server"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("optimizer", "old", "new", "message"),
    [
        (
            "rlas",
            "kind: map, service_time_s: 4.17e-07",
            "kind: map, service_time_s: 0",
            "operator 'parser' costs nothing",
        ),
        (
            "rlas-fix-l",
            "consumer: predictor, partitioning: hash",
            "consumer: predictor, partitioning: broadcast",
            "parser -> predictor (broadcast) is not; use rebalance",
        ),
    ],
)
def test_what_cannot_be_planned_is_one_line(tmp_path: Path, optimizer: str, old: str, new: str, message: str) -> None:
    text = scenario_file.dump(scenario_file.load("briskstream-fd")).replace(old, new)
    path = tmp_path / "bad.yaml"
    path.write_text(text, encoding="utf-8")
    done = twin("optimize", str(path), "--optimizer", optimizer, "--quiet", "--out", str(tmp_path / "plan.yaml"))
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and message in done.stderr
    assert not (tmp_path / "plan.yaml").exists()
