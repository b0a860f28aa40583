"""Stopping: every optimizer then gives its best so far, claims nothing unproved, and has told its progress."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from optimizers.interface import Deadline, PlanningProgress, Problem, Status
from optimizers.planner import Planner
from optimizers.program import aside
from optimizers.registry import OPTIMIZERS
from optimizers.space import Space
from scenarios.files.scenario_file import load
from tests.optimizers.claimed_jobs import claimed_job
from twin.metrics import Estimates
from twin.plan import ExecutionPlan
from twin.rates.model import RateModel
from twin.scenario import Scenario

SEARCHING = (
    "branch-and-bound",
    "costream",
    "exhaustive",
    "local-search",
    "milp",
    "milp-hosts",
    "milp-rate",
    "rlas",
    "rlas-placement",
)


@dataclass
class Counting:
    """Cost model that takes long for a single plan, as it says, and counts its calls."""

    name: str = "slow"
    replications: int = 1
    asked: list[int] = field(default_factory=list)

    def predict(self, scenario: Scenario, plans: Sequence[ExecutionPlan]) -> Estimates:
        self.asked.append(len(plans))
        return RateModel().predict(scenario, plans)

    def blind_to(self, scenario: Scenario) -> tuple[str, ...]:
        del scenario
        return ()


@pytest.mark.parametrize("name", SEARCHING)
@pytest.mark.parametrize("after", [1, 20])
def test_who_stops_gets_the_best_so_far(name: str, after: int) -> None:
    job, model = claimed_job(3, on_sockets=False), Counting()
    space = Space(costream_rules=name == "costream")
    problem = Problem(
        scenario=job,
        cost_model=model,
        objective="throughput_per_s",
        stopped=lambda: len(model.asked) >= after,
        space=space,
    )
    found = Planner(OPTIMIZERS[name]).solve(problem)
    assert len(model.asked) <= after + 9, "what is known is judged once more, for the answer"
    assert found.plan == job.plan or space.includes(job, found.plan)
    done = found.status is not Status.FEASIBLE or len(model.asked) <= after
    assert done or "stopped; the best so far" in found.message


@pytest.mark.parametrize("name", ["branch-and-bound", "exhaustive", "local-search", "milp", "rlas"])
def test_time_that_is_up_gives_a_plan_and_says_so(name: str) -> None:
    job = claimed_job(21, on_sockets=True)
    found = Planner(OPTIMIZERS[name]).solve(
        Problem(scenario=job, cost_model=RateModel(), objective="throughput_per_s", seconds=1e-6)
    )
    assert found.status is Status.INFEASIBLE or "time was up after 1e-06 s; the best so far" in found.message
    assert found.status is not Status.OPTIMAL
    assert found.given is not None and found.objective >= found.given.objective * (1 - 1e-9)


@pytest.mark.parametrize("seconds", [1e-6, 1e-3, 0.02])
def test_a_program_that_had_no_time_bounds_nothing(seconds: float) -> None:
    found = Planner(OPTIMIZERS["milp"]).solve(
        Problem(scenario=load("smart-grid"), cost_model=RateModel(), seconds=seconds)
    )
    assert found.bound is None or (np.isfinite(found.bound) and found.gap is not None and np.isfinite(found.gap))


@pytest.mark.parametrize("name", ["costream", "exhaustive", "local-search", "milp", "rlas"])
def test_all_of_them_tell_where_they_stand_and_the_best_only_gets_better(name: str) -> None:
    told: list[PlanningProgress] = []
    job = claimed_job(8, on_sockets=True)
    problem = Problem(scenario=job, cost_model=RateModel(), objective="throughput_per_s", report=told.append)
    found = OPTIMIZERS[name].solve(problem)
    assert told and all(each.total is None or 0 <= each.done <= each.total for each in told)
    bests = [each.best for each in told if each.what == "plans estimated" and each.best is not None]
    assert bests and max(bests) == pytest.approx(found.objective, rel=1e-6)
    if name == "rlas":
        assert {each.what for each in told} >= {"subtasks placed", "plans estimated"}
        assert told[-1].bound == found.bound


@pytest.mark.parametrize("seed", [0, 4, 14])
def test_a_stop_at_any_time_is_no_bad_plan(seed: int) -> None:
    """A stop at once gives a plan at least as good as spread subtasks, as subtasks begin in proportion to needs."""
    job = claimed_job(seed, on_sockets=True)
    asked = Problem(scenario=job, cost_model=RateModel(), objective="throughput_per_s")
    spread = OPTIMIZERS["spread"].solve(asked).objective
    first = OPTIMIZERS["rlas"].solve(replace(asked, seconds=1e-6)).objective
    assert first >= spread


def test_a_solver_that_does_not_hear_is_left_behind() -> None:
    waited: list[float] = []
    deaf = threading.Event()  # its `wait` would say False in the end
    assert aside(lambda: deaf.wait(60.0), Deadline(stopped=lambda: len(waited) >= 2), waited.append) is None
    deaf.set()
    assert aside(lambda: np.pi, Deadline()) == np.pi
    with pytest.raises(ZeroDivisionError):
        aside(lambda: 1 / 0, Deadline.of(10.0))
