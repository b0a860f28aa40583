"""`twin optimize --optimizer milp` as a user calls it: a process of its own, whose output a program may read."""

from __future__ import annotations

import json

import pytest

from optimizers.registry import OPTIMIZERS
from scenarios.files.scenario_file import load
from tests.commands import twin


def test_the_answer_is_json_and_a_scenario_that_loads(tmp_path):
    out = tmp_path / "plan.yaml"
    done = twin("optimize", "edge-filter", "--optimizer", "milp", "--json", "--quiet", "--out", out)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["status"] in {"optimal", "feasible"}
    assert answer["bound"] is None or answer["bound"] <= answer["predicted"]
    assert load(str(out)).plan.model_dump(mode="json")["placement"] == answer["placement"]


@pytest.mark.slow
def test_more_than_all_machines_bear_is_said():
    """The library's own rate needs more cores than its three machines have."""
    done = twin("optimize", "numa-cluster", "--optimizer", "milp-hosts", "--json", "--quiet")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert (answer["status"], answer["message"]) == (
        "infeasible",
        "no plan was found that bears 1.2 times the offered rates",
    )


def test_all_are_listed():
    listed = twin("list").stdout
    assert all(name in listed for name in OPTIMIZERS if name.startswith("milp"))
