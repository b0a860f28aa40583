"""What is not true of all plans of a job is found out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.claim_proofs import asked, question, too_many, wrong
from benchmarks.claimed_jobs import claimed_job, every_plan
from optimizers.counted import as_plans
from optimizers.interface import Problem, Solution, Status
from optimizers.planner import Planner
from optimizers.registry import OPTIMIZERS
from optimizers.selection import Estimated, estimate

SEED = 48
"""A job of 16 plans, some of which keep up."""


@pytest.fixture(scope="module")
def judged() -> tuple[Problem, Solution, Estimated]:
    problem, counts_nol = asked(question(SEED), "exhaustive", every_plan(question(SEED).deployment))
    every = estimate(problem, as_plans(problem.deployment, counts_nol))
    return problem, Planner(OPTIMIZERS["exhaustive"]).solve(problem), every


def test_what_is_true_is_not_found_fault_with(judged: tuple[Problem, Solution, Estimated]) -> None:
    assert judged[1].status is Status.OPTIMAL and not wrong(*judged)


def test_false_claims_are_found_out(judged: tuple[Problem, Solution, Estimated]) -> None:
    problem, found, every = judged
    worst = every.plans[int(np.flatnonzero(every.sane)[every.objective[every.sane].argmax()])]
    worse = replace(found, plan=worst)
    assert wrong(problem, replace(found, status=Status.INFEASIBLE), every) == "infeasible, but a plan will do"
    assert wrong(problem, replace(worse, status=Status.OPTIMAL), every)
    assert "bound" in wrong(problem, replace(found, bound=2.0 * found.objective), every)


def test_hosts_that_need_not_be_bought_are_found_out(judged: tuple[Problem, Solution, Estimated]) -> None:
    problem = replace(judged[0], scenario=claimed_job(0, on_sockets=False))
    counts_nol = every_plan(problem.deployment)
    sane = np.ones(len(counts_nol), bool)
    most = int(counts_nol.any(axis=1).sum(axis=1).argmax())
    said = replace(
        judged[1], plan=as_plans(problem.deployment, counts_nol[most][None])[0], message="; no fewer will do"
    )
    assert "but 1 do" in too_many(problem, said, counts_nol, sane)
    assert not too_many(problem, replace(said, message=""), counts_nol, sane)
