"""What `twin optimize` prints: each line names the plan that it is about."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.console import Console

from optimizers.interface import Candidate, Solution, Status
from streamtwin.tables import chosen_plan
from streamtwin.tables.wide import Wide
from twin.plan import ExecutionPlan

GIVEN = ExecutionPlan(placement={"s": "a", "k": "a"})
OTHER = ExecutionPlan(placement={"s": "a", "k": ("b", "b")})


def solution(**more: object) -> Solution:
    found = Solution(
        status=Status.FEASIBLE,
        plan=OTHER,
        objective=2000.0,
        bound=2200.0,
        evaluations=7,
        seconds=0.5,
        weighed=90,
        given=Candidate(GIVEN, 1500.0, 0.9, 1.0),
    )
    return replace(found, **more)  # type: ignore[arg-type]


def lines(table: Wide) -> list[list[str]]:
    console = Console(width=100)
    with console.capture() as capture:
        console.print(table)
    return [line.split("  ") for line in capture.get().splitlines()]


def told(found: Solution, *, required: bool = False) -> dict[str, list[str]]:
    table = chosen_plan.estimates(GIVEN, found, "rlas", "rates", "throughput_per_s", required=required)
    rows = [[cell.strip() for cell in line if cell.strip()] for line in lines(table)]
    return {row[0]: row[1:] for row in rows if len(row) > 1}


def test_both_plans_have_a_row_with_what_becomes_of_them() -> None:
    rows = told(solution())
    assert rows["as given"] == ["1,500", "backpressured"]
    assert rows["by rlas"] == ["2,000", "keeps up"]
    assert told(solution(sane=False))["by rlas"] == ["2,000", "does not keep up"]
    assert told(solution(sane=False), required=True)["by rlas"][1] == "does not keep up, or not as required"
    assert told(solution(given=Candidate(GIVEN, 1500.0, 0.0, 0.2)))["as given"][1] == "fails"
    assert (
        told(solution(given=Candidate(GIVEN, 1.0, 0.0, 1.0, False)))["as given"][1] == "keeps up, but not as required"
    )


def test_a_plan_that_is_kept_has_one_row() -> None:
    rows = told(solution(plan=GIVEN, objective=1500.0, sane=False))
    assert set(rows) == {"plan", "as given, kept"}
    assert rows["as given, kept"] == ["1,500", "backpressured"]


def test_placements_stand_under_the_plan_that_they_are_of() -> None:
    text = "\n".join("  ".join(line) for line in lines(chosen_plan.placements("job", GIVEN, solution(), "rlas")))
    assert "as given" in text and "by rlas" in text and "b" in text


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (
            {},
            "feasible: 7 plans estimated, 90 placements weighed in the search, in 0.50 s; no plan that keeps up can be",
        ),
        ({"simulated": 6, "weighed": 0}, "feasible: 7 plans estimated, 6 of them simulated, in 0.50 s"),
        ({"sane": False}, "; no plan can be more than 10.0% better"),
        ({"status": Status.OPTIMAL, "among": "any number of replicas", "bound": 2000.0}, "optimal (any number of"),
    ],
)
def test_what_is_weighed_is_no_plan_and_a_bound_says_of_what_it_is(more: dict[str, object], says: str) -> None:
    words = chosen_plan.claim(solution(**more))
    assert says in words
    assert "0.0%" not in words.replace("10.0%", "")
