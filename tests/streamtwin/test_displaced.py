"""What the planner says of sources and sinks that it takes away from where they are."""

from __future__ import annotations

from streamtwin.tables.chosen_plan import displaced, moved_ends
from tests.twin.worlds import chain
from twin.plan import ExecutionPlan


def plan(**hosts: list[str]) -> ExecutionPlan:
    return ExecutionPlan.model_validate({"placement": hosts})


def test_ends_that_leave_a_host_or_come_to_one_are_named() -> None:
    query = chain([{"kind": "map", "name": "m"}], 10.0).query
    given = plan(source=["a", "b"], m=["a"], sink=["c"])
    assert displaced(query, given, given) == []
    assert displaced(query, given, plan(source=["b", "a", "a"], m=["b", "c"], sink=["c"])) == []
    assert displaced(query, given, plan(source=["a", "a"], m=["a"], sink=["c"])) == ["source"]
    assert displaced(query, given, plan(source=["a", "b"], m=["a"], sink=["c", "a"])) == ["sink"]


def test_the_remedy_can_be_copied() -> None:
    query = chain([{"kind": "map", "name": "m"}], 10.0).query
    given = plan(source=["a"], m=["a"], sink=["c"])
    assert moved_ends(query, given, given) is None
    words = moved_ends(query, given, plan(source=["c"], m=["a"], sink=["a"]))
    assert words is not None and words.endswith("--pin source,sink")
