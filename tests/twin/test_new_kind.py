"""A kind of operator costs one file and one line, a partitioning one line: a copy of the house gets and knows them."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import pytest

from models.features import FEATURE_VERSION
from twin.kinds.operator import OperatorBase
from twin.kinds.registry import by_kind
from twin.profiles import STORM

ROOT = Path(__file__).resolve().parents[2]
TOYS = Path(__file__).parent / "toys"
RATE_PER_S, KEYS, SIZE_S = 200.0, 50, 0.2
JOB = {
    "query": {
        "operators": [
            {"kind": "source", "name": "source"},
            {"kind": "distinct", "name": "distinct", "keys": KEYS, "window": {"policy": "time", "size_s": SIZE_S}},
            {"kind": "sink", "name": "sink"},
        ],
        "streams": [
            {"producer": "source", "consumer": "distinct"},
            {"producer": "distinct", "consumer": "sink", "partitioning": "last"},
        ],
    },
    "cluster": {"hosts": [{"name": "h", "cpu_percent": 400, "ram_mb": 8000, "bandwidth_mbps": 1000, "latency_ms": 1}]},
    "plan": {"placement": {"source": "h", "distinct": {"h": 2}, "sink": {"h": 3}}},
    "workload": {"arrivals": {"source": {"law": "poisson", "rate_per_s": RATE_PER_S}}},
}


LAST = 'Partitioning("last", lambda ends: [float(k == ends.consumers - 1) for k in range(ends.consumers)], whole=True)'
"""Entry of the table for a partitioning that a test adds: all to the last subtask."""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    house = tmp_path_factory.mktemp("house")
    for package in ("twin", "models"):
        # with the object code: its sources are the same
        shutil.copytree(ROOT / package, house / package, ignore=shutil.ignore_patterns("*.pyc"))
    shutil.copy(TOYS / "distinct.py", house / "twin" / "kinds")
    registry = house / "twin" / "kinds" / "registry.py"
    text = registry.read_text()
    line = next(each for each in text.splitlines() if each.startswith("AnyOperator = "))
    text = text.replace(line, f"{line} | Distinct")
    registry.write_text(
        text.replace(
            "from twin.kinds.basic",
            "from twin.kinds.distinct import Distinct\nfrom twin.kinds.basic",
            1,
        )
    )
    partitionings = house / "twin" / "partitionings.py"
    text = partitionings.read_text()
    assert "        REBALANCE,\n" in text
    partitionings.write_text(text.replace("        REBALANCE,\n", f"        REBALANCE,\n        {LAST},\n"))
    shutil.copy(TOYS / "use_distinct.py", house)
    saved = STORM.model_dump(mode="json")
    command = [sys.executable, "use_distinct.py", json.dumps(JOB), json.dumps(saved)]
    environment = {**os.environ, "PYTHONPATH": str(house)}
    done = subprocess.run(command, cwd=house, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_the_new_kind_runs_and_the_rate_model_predicts_it(found: dict[str, Any]) -> None:
    """Runs and predictions have K (1 - exp(-w / K)) keys a window, of both subtasks; within 5 standard errors."""
    expected = KEYS * -math.expm1(-RATE_PER_S * SIZE_S / KEYS) / SIZE_S
    assert found["predicted_per_s"] == pytest.approx(expected, rel=0.02)  # the first window of the run is missing
    assert found["on_sockets_per_s"] == pytest.approx(expected)
    windows = 48.0 / SIZE_S
    error = math.sqrt(KEYS / 4.0 / windows) / SIZE_S  # a key is in a window or not
    assert abs(found["simulated_per_s"] - expected) < 5.0 * error


def test_a_new_partitioning_is_an_entry_in_a_table(found: dict[str, Any]) -> None:
    *others, last = found["at_sinks"]
    assert others == [0, 0]
    assert last > 0


def test_the_new_kind_is_keyed_and_weighed(found: dict[str, Any]) -> None:
    assert found["partitioning"] == "hash"
    assert found["state_mb"] > 0


def test_a_profile_saved_before_the_new_kind_still_holds(found: dict[str, Any]) -> None:
    """An old profile charges for the new kind as for the one that it resembles, and is written as it was."""
    columns_us = 20 + 50 + 30
    assert found["service_s"] == pytest.approx((STORM.record_us.aggregate + columns_us) * 1e-6)
    assert found["saved_again"] == STORM.model_dump(mode="json")


def test_a_new_kind_shifts_no_features_and_models_that_never_saw_it_refuse_it(found: dict[str, Any]) -> None:
    assert found["features"] == FEATURE_VERSION
    assert "never saw 'distinct'" in found["learned"]
    assert found["seen_as"] == "aggregate"


class Nameless(OperatorBase):
    """A kind that forgot its default."""

    kind: Literal["nameless"]


def test_a_kind_without_its_name_as_the_default_is_told_how_to_write_it() -> None:
    with pytest.raises(TypeError, match="Nameless has no default kind; write kind: Literal"):
        by_kind([Nameless])
