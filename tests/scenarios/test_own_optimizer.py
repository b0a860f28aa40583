"""Optimizers of users, in a file or a package; and the handling of those that misbehave."""

from __future__ import annotations

from collections import Counter
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from optimizers import plugins, registry
from optimizers.interface import Status
from optimizers.registry import optimizer_by_name
from scenarios.files.scenario_file import load
from scenarios.planning import planner, validation
from scenarios.planning.validation import validate
from scenarios.suite import FAMILIES, MEMBERS, families
from tests.commands import answer
from twin.errors import BadInput
from twin.rates.model import RateModel
from twin.simulation import simulate

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "coolest_host.py"
OWN = """
from dataclasses import dataclass, replace
from optimizers.interface import Status
from optimizers.local_search import LocalSearch

@dataclass(frozen=True)
class Good:
    name: str = "good"
    def solve(self, problem):
        return LocalSearch().solve(problem)

class Raises:
    name = "raises"
    def solve(self, problem):
        raise ZeroDivisionError("of my own")

class Silent:
    name = "silent"
    def solve(self, problem):
        return None

class Elsewhere:
    name = "elsewhere"
    def solve(self, problem):
        found = LocalSearch().solve(problem)
        nowhere = {name: ("nowhere",) for name in found.plan.placement}
        return replace(found, plan=found.plan.with_placement(nowhere))

class Uncertain:
    name = "uncertain"
    def solve(self, problem):
        return replace(LocalSearch().solve(problem), objective=float("nan"))

class Boasting:
    name = "boasting"
    def solve(self, problem):
        found = LocalSearch().solve(problem)
        return replace(found, objective=found.objective / 1e6, bound=0.0, status=Status.OPTIMAL)

class Nameless:
    def solve(self, problem):
        return None

class Broken:
    name = "broken"
    def __init__(self):
        raise RuntimeError("not today")
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(OWN, encoding="utf-8")
    return path


def short(name="edge-filter"):
    return load(name).with_run(horizon_s=4.0, warmup_s=0.0, period_s=2.0)


def test_every_kind_of_failure_is_a_row_and_the_table_is_whole(file):
    names = ["Good", "Raises", "Silent", "Elsewhere"]
    chosen = planner.optimizers(",".join(f"{file}:{name}" for name in names))
    rows = validate([short()], chosen, [RateModel()], simulate, 1, 0, budget=20, references=2)
    assert {row.optimizer: row.status for row in rows} == {
        "good": "feasible",  # the given plan is as good, which is kept
        "raises": "failed",
        "silent": "failed",
        "elsewhere": "failed",
    }
    messages = {row.optimizer: row.message for row in rows}
    line = next(number for number, text in enumerate(OWN.splitlines(), 1) if "of my own" in text)
    assert messages["raises"] == f"ZeroDivisionError: of my own ({file.name}, line {line})"
    assert messages["silent"] == "solve returned NoneType, not a Solution"
    assert "its plan does not fit the job" in messages["elsewhere"]
    board = validation.standings(rows)
    assert board[0].optimizer == "good"
    assert sum(each.failed for each in board) == 3
    assert max(map(max, validation.samples(rows).values())) == validation.FAR


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Nameless", "needs a `name`"),
        ("Broken", "not today"),
        ("Missing", "has no 'Missing'"),
        ("good", "did you mean 'Good'"),
    ],
)
def test_what_is_wrong_with_ones_own_is_said(file, name, words):
    with pytest.raises(BadInput, match=words):
        optimizer_by_name(f"{file}:{name}")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Raises", "raised ZeroDivisionError: of my own"),
        ("Silent", "solve returned NoneType, not a Solution"),
        ("Elsewhere", "does not fit the job: .*nowhere"),
        ("Uncertain", "objective is not a number"),
    ],
)
def test_where_it_alone_was_asked_it_is_told_what_it_did(file, name, words):
    with pytest.raises(BadInput, match=words):
        planner.optimize(short(), f"{file}:{name}", estimates=20)


def test_a_file_that_is_not_there_or_does_not_load(tmp_path):
    with pytest.raises(BadInput, match="there is no file"):
        optimizer_by_name(f"{tmp_path}/none.py:X")
    with pytest.raises(BadInput, match=r"write mine\.py:CLASS"):
        optimizer_by_name("mine.py")
    (tmp_path / "bad.py").write_text("import nothing_like_it", encoding="utf-8")
    with pytest.raises(BadInput, match="ModuleNotFoundError"):
        optimizer_by_name(f"{tmp_path}/bad.py:X")


def test_an_entry_point_is_known_by_its_name(monkeypatch):
    points = {
        "theirs": EntryPoint("theirs", "optimizers.local_search:LocalSearch", plugins.GROUP),
        "gone": EntryPoint("gone", "no_such_package:X", plugins.GROUP),
    }
    monkeypatch.setattr(registry, "installed", lambda: points)
    assert optimizer_by_name("theirs").name == "local-search"
    with pytest.raises(BadInput, match="cannot be loaded"):
        optimizer_by_name("gone")
    with pytest.raises(BadInput, match="did you mean 'theirs'"):
        optimizer_by_name("their")


def test_the_example_of_the_docs_runs_on_the_command_line():
    command = ["benchmark", "--families", "numa", "--most", 1, "--replications", 1, "--references", 2]
    document = answer(*command, "--optimizers", f"milp,{EXAMPLE}:CoolestHost", "--cost-model", "rates")
    assert {each["optimizer"] for each in document["standings"]} == {"milp", "coolest-host"}
    assert all(each["status"] in {"optimal", "feasible"} for each in document["rows"])


def test_members_of_the_suite_are_what_they_were():
    """Members of the suite do not change without a new version, as other people's leader boards refer to them."""
    firsts = {name: family.scenarios(1)[0] for name, family in FAMILIES.items()}
    assert {name: len(each.query.operators) for name, each in firsts.items()} == {
        "edge-linear": 6,
        "edge-2-way": 7,
        "edge-3-way": 8,
        "links": 6,
        "replicas": 5,
        "hosts-and-sockets": 6,
        "numa": 3,
        "demanding": 8,
        "cheapest-hosts": 6,
        "nexmark": 5,
    }
    asked = [each.asks for each in MEMBERS.values() for _ in each.seeds]
    assert Counter(asked) == {"placement": 100, "hosts": 8, "balance": 12, "policy": 6}
    for scenario in firsts.values():
        assert RateModel().predict(scenario, [scenario.plan])["processing_latency_s"][0] > 0


def test_unknown_families_are_named():
    with pytest.raises(BadInput, match="did you mean 'numa'"):
        families("nuna")
    with pytest.raises(BadInput, match="names none"):
        families(" , ")


def test_what_an_optimizer_claims_of_its_plan_is_not_believed(file):
    """The cost model says what its plan is worth; a claim that this refutes is told, and proves nothing."""
    given = load("edge-filter")
    crowded = given.with_plan(given.plan.with_placement(dict.fromkeys(given.plan.placement, ("edge-1",))))
    crowded = crowded.with_set("workload.arrivals.sensors.rate_per_s", 40_000)
    for scenario in (given, crowded):
        claimed, honest = (planner.optimize(scenario, f"{file}:{name}") for name in ("Boasting", "Good"))
        assert claimed.objective == honest.objective and claimed.status is not Status.OPTIMAL
    assert "claims" in claimed.message and "claims" not in honest.message
