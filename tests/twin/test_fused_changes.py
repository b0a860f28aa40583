"""Operators that run as one, while the job changes: failures, moves, scaling."""

from __future__ import annotations

from typing import Any

import pytest

from tests.twin.changing import HOSTS, column
from tests.twin.changing import run as run_changing
from tests.twin.fused_jobs import COUNT, TIME, counting, map_
from tests.twin.worlds import chain
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.events import AnyEvent, Failure, Migration, Scale
from twin.plan import ExecutionPlan
from twin.scenario import RunSettings, Scenario

GROUPS = [("source", "m"), ("m", "a"), ("a", "g", "sink"), ("source", "m", "a", "g", "sink")]
DOWN = Failure(at_s=8.5, host="h1", recover_after_s=3)


def changing(group: tuple[str, ...], window: dict[str, Any], replicas: int = 1) -> Deployment:
    """Fused operators are on h1, all others on h0."""
    middle = [map_("m", 2e-4), counting("a", 1e-4, window, 20), map_("g", 1e-4)]
    names = ["source", "m", "a", "g", "sink"]
    placement = {name: ["h1"] * replicas if name in group else ["h0"] for name in names}
    forward = dict.fromkeys(group[1:], "forward")
    job = chain(middle, 400, hosts=HOSTS, placement=placement, partitioning=forward)
    return job.with_plan(ExecutionPlan(placement=job.plan.placement, fused=(group,)))


@pytest.mark.slow
@pytest.mark.parametrize("window", [COUNT, TIME], ids=["count", "time"])
@pytest.mark.parametrize("group", GROUPS)
def test_a_failure_loses_and_repeats_as_much_as_apart(group: tuple[str, ...], window: Any) -> None:
    """That nothing is lost or made is checked in each run; here, that results are those of the job that runs apart."""
    job = changing(group, window)
    as_one, apart = (
        run_changing(each, DOWN, horizon_s=16, checkpoint_interval_s=3)
        for each in (job, job.with_plan(job.plan.model_copy(update={"fused": ()})))
    )
    assert as_one.event_rows[0]["end_s"] == 11.5
    made = as_one.metrics.tuples_out - as_one.duplicates
    assert made == pytest.approx(apart.metrics.tuples_out - apart.duplicates, rel=0.03)


def test_windows_that_are_fused_move_with_what_they_hold() -> None:
    job = changing(("a", "g", "sink"), TIME)
    for event in (
        Migration(at_s=8.2, operator="a", replica=0, to="h3"),
        Scale(at_s=8.2, operator="a", placement=("h1", "h3")),
    ):
        result = run_changing(job, event)
        assert "refused" not in result.event_rows[0]["detail"] and result.event_rows[0]["bytes"] > 1000
        assert min(column(result, "a", "numRecordsOut")[3:]) >= 36  # 20 groups, twice a second


def test_a_replica_that_comes_later_is_a_chain_as_well() -> None:
    job = changing(("m", "a"), COUNT, replicas=2)
    result = run_changing(job, Scale(at_s=5, operator="m", placement=("h1", "h1", "h2")))
    replicas = {name: column(result, name, "replicas")[-1] for name in ("m", "a", "g")}
    assert replicas == {"m": 3, "a": 3, "g": 1}


def test_an_event_names_the_first() -> None:
    job = changing(("a", "g"), TIME)
    events: list[AnyEvent] = [
        Migration(at_s=1, operator="g", replica=0, to="h3"),
        Scale(at_s=1, operator="g", placement=("h3",)),
    ]
    for event in events:
        with pytest.raises(BadInput, match="'g' runs as one with 'a' and goes where that goes; name 'a'"):
            Scenario.of(job, RunSettings(), (event,))
