"""Plans as rows of one array: the same plans, and the same estimates, as one by one."""

from __future__ import annotations

import numpy as np
import pytest

from scenarios.files import scenario_file
from twin.metrics import METRICS
from twin.plan import ExecutionPlan
from twin.rates.model import RateModel
from twin.rates.seats import Placements, distinct_rows


@pytest.mark.parametrize("seed", range(20))
def test_distinct_rows_give_every_row_back_and_repeat_none(seed):
    rng = np.random.default_rng(seed)
    values = rng.integers(4, size=(rng.integers(1, 30), rng.integers(1, 6)))
    first, kind = distinct_rows(values)
    assert (values[first][kind] == values).all()
    assert len(np.unique(values[first], axis=0)) == len(first)


def test_rows_too_long_for_one_number_are_told_apart_as_well():
    values = np.random.default_rng(0).integers(10**6, size=(50, 9))
    values[25:] = values[:25]
    first, kind = distinct_rows(values)
    assert len(first) == 25
    assert (values[first][kind] == values).all()


@pytest.fixture(scope="module")
def job():
    return scenario_file.load("smart-grid").deployment


def test_a_row_is_a_plan_with_the_jobs_subtasks(job):
    wide = job.with_plan(ExecutionPlan(placement={**job.plan.placement, "parse": {"edge-1": 2}}))
    rows = np.random.default_rng(0).integers(len(job.cluster.hosts), size=(5, len(job.query.operators)))
    placements = Placements(wide, rows)
    assert len(placements) == len(list(placements)) == 5
    for row, plan in zip(rows, placements, strict=True):
        for operator, host in zip(job.query.operators, row, strict=True):
            name = job.cluster.hosts[host].name
            assert plan.placement[operator.name] == (name,) * (2 if operator.name == "parse" else 1)
    assert list(placements[1:3]) == [placements[1], placements[2]]
    assert placements.take(rows[:, 0] == rows[0, 0])[0] == placements[0]


def test_the_rate_model_says_the_same_of_rows_and_of_plans(job):
    rows = np.random.default_rng(1).integers(len(job.cluster.hosts), size=(40, len(job.query.operators)))
    placements = Placements(job, rows)
    fast, slow = RateModel().predict(job, placements), RateModel().predict(job, list(placements))
    for metric in METRICS:
        np.testing.assert_allclose(fast[metric], slow[metric], rtol=1e-9)
