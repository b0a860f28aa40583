"""Rule of Flink's autoscaler on a perfect plant: its bounds, its delays, its catching up; and in the simulator."""

from __future__ import annotations

import pytest

from optimizers.policies.flink_autoscaler import FlinkAutoscaler, FlinkAutoscalerSpec
from tests.optimizers.plant import ByPeriod, Plant, changes, plant_job
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.spec import parse

JOB = plant_job()
QUICK = {"metrics_window_periods": 2, "stabilization_interval_periods": 1, "scale_down_interval_periods": 3}
PLAIN = {**QUICK, "restart_time_periods": 0}


def counts(
    load: ByPeriod, job: Deployment = JOB, parallelism: int = 1, periods: int = 40, **options: object
) -> list[int]:
    spec = parse(FlinkAutoscalerSpec, {"name": "flink-autoscaler", **options})
    return Plant(load, parallelism).run(FlinkAutoscaler(job, spec), periods)


def test_defaults_are_those_of_the_documentation():
    spec = FlinkAutoscalerSpec()
    assert (spec.utilization_target, spec.target_utilization_boundary) == (0.7, 0.3)
    assert (spec.metrics_window_periods, spec.stabilization_interval_periods) == (15, 5)
    assert (spec.catch_up_duration_periods, spec.restart_time_periods) == (30, 5)
    assert spec.periods_before_acting == 20
    assert counts(3.0)[:20] == [1] * 20, "nothing before the first window is full"
    assert counts(3.0)[20] > 3


@pytest.mark.parametrize(
    ("load", "parallelism", "expected"),
    [(0.95, 1, 1), (2.9, 3, 3), (1.3, 3, 3), (1.1, 3, 2), (0.2, 3, 1)],
    ids=["below the upper bound", "full", "above the lower bound", "below it", "to one, in two steps"],
)
def test_nothing_changes_within_the_boundary(load, parallelism, expected):
    assert counts(load, parallelism=parallelism, **PLAIN)[-1] == expected


def test_subtasks_follow_from_the_target():
    """A load of 4.2 subtasks at 70 % needs 6; with a restart of 1 in 6 of the catch-up, 7."""
    assert counts(4.2, parallelism=6, **PLAIN, target_utilization_boundary=0.0)[-1] == 6
    grown = {**QUICK, "catch_up_duration_periods": 30, "restart_time_periods": 5, "target_utilization_boundary": 0.0}
    assert counts(4.2, parallelism=3, **grown)[-1] == 7


def test_lag_is_caught_up_and_nothing_shrinks_meanwhile():
    """While the lag is above the threshold, subtasks make up for it within the duration, and none are removed."""
    step = {**PLAIN, "catch_up_duration_periods": 5, "backlog_processing_lag_threshold_periods": 1}
    found = counts(lambda k: 4.0 if k < 20 else 0.5, parallelism=1, periods=60, **step)
    assert max(found) > 6, "more than 4 / 0.7"
    assert found[-1] == 1
    slow = counts(4.0, parallelism=1, periods=60, **PLAIN, catch_up_duration_periods=0)
    assert max(slow) == 6, "without a catch-up the lag asks for nothing"


def test_shrinking_waits_and_takes_the_most_that_was_called_for():
    loads = [2.8] * 10 + [0.7, 2.0, 0.7, 0.7] + [0.7] * 26
    waits = {**PLAIN, "metrics_window_periods": 1, "target_utilization_boundary": 0.1}
    found = counts(lambda k: loads[k], parallelism=4, **waits)
    assert found[:13] == [4] * 13
    assert changes(found)[0] == (4, 3), "2.0 called for three in the interval"
    assert found[-1] == 1
    assert counts(0.7, parallelism=8, **{**waits, "scale_down_interval_periods": 60}) == [8] * 40


def test_at_most_so_many_go_or_come_at_once():
    assert changes(counts(0.1, parallelism=10, **PLAIN))[0] == (10, 4), "60 % of them"
    assert changes(counts(9.0, parallelism=1, **PLAIN, scale_up_max_factor=1.0))[0] == (1, 2)
    assert max(counts(9.0, **PLAIN, vertex_max_parallelism=5)) == 5


def test_keyed_operators_get_counts_that_divide_their_groups():
    assert counts(3.2, plant_job(key_groups=12), **PLAIN, target_utilization_boundary=0.1)[-1] == 6


@pytest.mark.parametrize(
    "options",
    [{"utilization_target": 0}, {"vertex_min_parallelism": 9, "vertex_max_parallelism": 3}, {"margin": 0.1}],
)
def test_options_that_cannot_be_are_refused(options):
    with pytest.raises(BadInput):
        parse(FlinkAutoscalerSpec, {"name": "flink-autoscaler", **options})
