"""What differs between two answers is what differs between their documents, whatever the question."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenarios.files.documents import document
from streamtwin.answers.difference import ASIDE, Apart, Figure, figures, of_run, plans, tables
from streamtwin.report import beside_page
from streamtwin.tables.tables import Wide
from tests.commands import answer, refused, twin
from tests.scenarios.questions.jobs import queue
from tests.streamtwin.test_schemas import MADE
from twin.errors import BadInput
from twin.simulation import simulate

JOB = queue(horizon_s=2, warmup_s=0.5)


def rows(table: Wide) -> dict[str, tuple[str, ...]]:
    """Cells by the first one of each row."""
    listed = [*zip(*(column.cells for column in table.columns), strict=True)]
    assert len({first for first, *_ in listed}) == len(listed)
    return {first: tuple(rest) for first, *rest in listed}


@pytest.mark.parametrize("command", ["run", "whatif"])
def test_an_answer_differs_from_another_by_the_figures_that_were_changed(command: str) -> None:
    """It does not differ from itself; and twice as large a figure differs by itself, which is 100 %."""
    given_ = document(MADE[command]())
    (same,) = tables(command, ("a", "b"), [given_, given_])
    known = dict(figures(given_))
    assert known and rows(same) == {} and f"0 of {len(known)} figures" in same.title
    doubled = {name: each for name, each in known.items() if not isinstance(each.value, bool) and each.value}
    table = tables(command, ("a", "b"), [given_, twice(given_)])[0]
    for what, (_, _, apart, share, *_) in rows(table).items():
        assert share == "+100 %" and apart.startswith("+") == (doubled[what].value > 0)
    assert len(rows(table)) == min(len(doubled), 40)


def twice(part: Any) -> Any:
    """Document with all numbers twice as large."""
    if isinstance(part, Mapping):
        return {key: twice(each) for key, each in part.items()}
    if isinstance(part, list):
        return [twice(each) for each in part]
    return 2 * part if isinstance(part, int | float) and not isinstance(part, bool) else part


NUMBERS = st.integers(-(10**12), 10**12).map(lambda n: n / 1000)
ERRORS = st.integers(0, 10**9).map(lambda n: n / 1000)


@given(NUMBERS, NUMBERS, ERRORS, ERRORS)
def test_the_difference_is_turned_round_with_the_answers(a: float, b: float, error: float, other: float) -> None:
    there, back = (
        Apart("x", *each) for each in ((Figure(a, error), Figure(b, other)), (Figure(b, other), Figure(a, error)))
    )
    assert there.difference == -back.difference == b - a and there.error == back.error >= max(error, other)
    assert there.row()["sure"] == back.row()["sure"]
    if a:
        assert a + there.share * abs(a) == pytest.approx(b, abs=1e-9 * max(abs(a), abs(b)))


def test_a_yes_that_becomes_a_no_differs_without_a_number() -> None:
    (table,) = tables("x", ("a", "b"), [{"keeps_up": True, "n": 1}, {"keeps_up": False, "n": 1}])
    assert rows(table) == {"keeps_up": ("yes", "no", "", "", "-")}
    assert math.isnan(Apart("x", Figure(True), Figure(False)).difference)


def test_what_only_one_answer_has_is_counted() -> None:
    def of(*names: str) -> dict[str, Any]:
        return {"variants": [{"variant": name, "metrics": {"m": {"mean": 1.0, "half_width95": 0.5}}} for name in names]}

    (table,) = tables("x", ("a", "b"), [of("one", "two"), of("two", "three", "four")])
    assert "0 of 1 figures differ; 3 are in one of the answers only" in table.title
    assert dict(figures(of("one"))) == {"one: m": Figure(1.0, 0.5)}
    assert "half_width95" not in ASIDE


@pytest.mark.parametrize(
    ("first", "second", "moved"),
    [
        ({"a": ["h", "g", "h"]}, {"a": ["h", "h", "g"]}, {}),
        ({"a": "h", "b": "h"}, {"a": "h", "b": "g"}, {"b": ("h", "g")}),
        ({"a": {"h": 2}}, {"a": ["h", "h"]}, {}),
        ({"a": ["h", "h"]}, {"a": ["h", "g"]}, {"a": ("h x 2", "g, h")}),
    ],
)
def test_operators_that_moved_are_those_at_other_places(first: Any, second: Any, moved: Any) -> None:
    """The order of subtasks makes no difference."""
    found = tables("optimize", ("a", "b"), [{"placement": first}, {"placement": second}])
    assert (rows(found[1]) if found[1:] else {}) == moved


def test_plans_of_variants_are_told_apart() -> None:
    whatif = {
        "variants": [{"variant": "v", "placement": {"a": {"h": 1}}}, {"variant": "w", "placement": {"a": {"g": 1}}}]
    }
    assert dict(plans(whatif)) == {"v: a": "h", "w: a": "g"}


def test_the_places_of_a_run_are_those_of_its_subtasks() -> None:
    run = simulate(JOB)
    places = dict(plans(of_run(run)))
    assert {*places} == {each.operator for each in run.operators}
    assert "subtasks" not in json.dumps(of_run(run))


# pages and the command -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Folders of two runs, and of two answers to one question and one to another."""
    folder = tmp_path_factory.mktemp("kept")
    short = ("--horizon", "20", "--quiet")
    asked = {
        "run": ("run", "edge-filter", *short),
        "slower": ("run", "edge-filter", *short, "--set", "workload.arrivals.sensors.rate_per_s=400",
                   "--set", "plan.placement.hot=cloud-1"),
        "whatif": ("whatif", "edge-filter", "--vary", "run.noise=true,false", "--replications", "2", *short),
        "more": ("whatif", "edge-filter", "--vary", "run.noise=true,false", "--replications", "3", *short),
        "change": ("dry-run", "edge-filter", "--rescale", "hot=2", "--replications", "2", *short),
    }  # fmt: skip

    def made(name: str) -> Path:
        if not (folder / name).exists():
            assert twin(*asked[name], "--out", folder / name).returncode == 0
        return folder / name

    return made


def test_the_command_tells_what_differs_between_two_runs(kept: Callable[[str], Path], tmp_path: Path) -> None:
    """Numbers are those of the runs, and the page has the same table."""
    names = ("run", "slower")
    runs = [answer("report", kept(name), "--out", tmp_path / f"{name}.html") for name in names]
    assert all(runs)
    told = twin("report", kept("run"), "--beside", kept("slower"), "--out", tmp_path / "both.html")
    page = (tmp_path / "both.html").read_text()
    html, (apart, moved) = beside_page([kept(name) for name in names])
    assert rows(moved) == {"hot": ("edge-1", "cloud-1")}
    rates = [float(rows(apart)["operators.sensors.rate_in_per_s"][n]) for n in (0, 1)]
    assert rates == [pytest.approx(800, rel=0.1), pytest.approx(400, rel=0.1)]
    assert rows(apart)["throughput_per_s"][-1] == "yes"
    for what, cells in rows(apart).items():
        assert what in told.stdout and f"<td>{what}</td>" in page and cells[0] in page
    assert re.sub(r"\s", "", html) == re.sub(r"\s", "", page)


def test_answers_to_one_question_are_set_beside_each_other_and_others_are_refused(
    kept: Callable[[str], Path], tmp_path: Path
) -> None:
    out = tmp_path / "x.html"
    assert "figures differ" in twin("report", kept("whatif"), "--beside", kept("more"), "--out", out).stdout
    assert out.is_file()
    for target, other, says in (
        (kept("whatif"), kept("change"), "twin whatif"),
        (kept("run"), kept("whatif"), "holds no run"),
        ("edge-filter", kept("run"), "twin compare"),
        (kept("run"), tmp_path / "none", "twin compare"),
    ):
        assert says in refused("report", target, "--beside", other, "--out", out)
    assert "other options" in refused("report", kept("run"), "--beside", kept("slower"), "--seed", "3", "--out", out)
    with pytest.raises(BadInput):
        beside_page([tmp_path, tmp_path])
