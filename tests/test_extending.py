"""Tests of the guide to additions: a copy of the house gets each file and the lines that the guide names."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.twin.toys.a_third import third
from twin.partitionings.traits import Partitioning

ROOT = Path(__file__).resolve().parents[1]
TOYS = Path(__file__).parent / "twin" / "toys"
ADDED = {
    "twin/arrivals/sawtooth.py": {
        "twin/workload.py": [
            ("from twin.arrivals.spikes", "from twin.arrivals.sawtooth import Sawtooth\nfrom twin.arrivals.spikes"),
            ("Constant | Poisson |", "Constant | Poisson | Sawtooth |"),
        ]
    },
    "optimizers/policies/once.py": {
        "optimizers/policies/registry.py": [
            (
                "from optimizers.policies.relieve",
                "from optimizers.policies.once import OnceSpec\nfrom optimizers.policies.relieve",
            ),
            ("        MonitoringSpec,\n", "        MonitoringSpec,\n        OnceSpec,\n"),
        ]
    },
    "twin/partitionings/a_third.py": {
        "twin/partitionings/registry.py": [
            (
                "from twin.partitionings.traits",
                "from twin.partitionings.a_third import A_THIRD\nfrom twin.partitionings.traits",
            ),
            ("        REBALANCE,\n", "        REBALANCE,\n        A_THIRD,\n"),
        ]
    },
    "streamtwin/cli/importing_rate.py": {
        "streamtwin/cli/app.py": [
            ("    importing_hardware,", "    importing_hardware,\n    importing_rate,"),
            ('    "metrics": ', '    "rate": importing_rate.rate,\n    "metrics": '),
        ]
    },
}
"""Edits for each new file: by changed file, a text and its replacement, which make the new name known."""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    house = tmp_path_factory.mktemp("house")
    for package in ("twin", "models", "optimizers", "scenarios", "streamtwin", "spark", "figures"):
        shutil.copytree(ROOT / package, house / package, ignore=shutil.ignore_patterns("*.pyc"))
    for file, lines in ADDED.items():
        shutil.copy(TOYS / Path(file).name, house / file)
        for place, changes in lines.items():
            text = (house / place).read_text(encoding="utf-8")
            for before, after in changes:
                assert before in text
                text = text.replace(before, after, 1)
            (house / place).write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, TOYS / "use_additions.py"],
        cwd=house,
        env={**os.environ, "PYTHONPATH": str(house)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def test_an_arrival_law_is_a_file_and_a_name(found: dict[str, Any]) -> None:
    """The new law has 100 a second for the first half of 2 s and 300 for the second: 200 on average."""
    assert found["arrived"] == pytest.approx(200.0 * found["seconds"], rel=0.02)
    assert found["law in the schema"]


def test_a_partitioning_is_a_function_and_a_name(found: dict[str, Any]) -> None:
    """One subtask of four bears 125 a second: with a third of the tuples for it the job bears 375, dealt evenly 500."""
    assert found["first of four"] == pytest.approx(1 / 3, abs=0.02)
    assert found["borne_per_s"] == pytest.approx([375.0, 375.0], rel=0.04)


def test_what_is_dealt_in_turn_has_even_shares() -> None:
    with pytest.raises(ValueError, match=r"'thirds' deals in turn, .* for 2 replicas are uneven \(0.333, 0.667\)"):
        Partitioning("thirds", third)


def test_a_policy_is_a_file_and_a_name(found: dict[str, Any]) -> None:
    assert found["reasons"] == ["once"]
    assert "once" in found["policies"]


def test_an_importer_is_a_file_and_a_name(found: dict[str, Any]) -> None:
    assert found["imported"] == 70.0
