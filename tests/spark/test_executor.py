"""Tests of fan-out over Spark: each item is done once, whatever becomes of workers, and results are told meanwhile."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from scenarios.executing import Processes, executor
from scenarios.planning import planner
from scenarios.planning.validation import validate
from scenarios.questions.bench import Bench
from spark.executor import OnSpark, fan_out
from tests.scenarios.questions.jobs import queue, shop
from twin.errors import BadInput, Unfinished
from twin.rates.model import RateModel
from twin.simulation import simulate

pytestmark = pytest.mark.spark


class Given(OnSpark):
    """Executor on a given session."""

    def __init__(self, spark: SparkSession) -> None:
        super().__init__("local[2]")
        self._spark = spark


class Lossy:
    """Function whose first worker is lost when it has done some of its items."""

    def __init__(self, notes: Path) -> None:
        self.notes = notes

    def __call__(self, item: int) -> int:
        if item == 5 and not (self.notes / "lost").exists():
            (self.notes / "lost").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return item * item


def refusing(item: int) -> int:
    if item == 3:
        raise BadInput("no 3; give another", ["one", "two"])
    return item


@pytest.mark.parametrize("tasks", [4, 20])
def test_each_item_is_told_once_though_a_worker_is_lost(spark: SparkSession, tmp_path: Path, tasks: int) -> None:
    told: list[tuple[int, int]] = []
    fan_out(spark, Lossy(tmp_path), range(10), lambda *each: told.append(each), tasks=tasks)
    assert (tmp_path / "lost").exists()
    assert sorted(told) == [(item, item * item) for item in range(10)]


def test_what_work_refuses_is_refused_here(spark: SparkSession) -> None:
    with pytest.raises(BadInput, match="no 3; give another") as refusal:
        fan_out(spark, refusing, range(6), lambda *_: None)
    assert refusal.value.mistakes == ("one", "two")


def test_what_fails_each_time_is_given_up_in_one_line(spark: SparkSession) -> None:
    with pytest.raises(Unfinished, match="ZeroDivisionError"):
        fan_out(spark, lambda item: 1 / item, [0], lambda *_: None)


def test_a_question_has_the_same_answer_there(spark: SparkSession) -> None:
    jobs = [(queue(rate, horizon_s=2, warmup_s=0.5), seed) for rate in (300, 600) for seed in (1, 2)]
    found, seen = [], []
    for made_by in (Processes(1), Given(spark)):
        with Bench(made_by) as bench:
            found.append(bench.outcomes(jobs, lambda *each: seen.append(each)))
            assert bench.outcomes(jobs) == found[-1]
            assert bench.made == 4
    assert found[0] == found[1]
    assert seen == [(0, 4), (1, 4), (2, 4), (3, 4), (4, 4)] * 2


def test_no_work_starts_nothing() -> None:
    with executor(None, "local[2]") as made_by:
        made_by.each(refusing, [], lambda *_: None)


def test_masters_are_checked_first() -> None:
    with pytest.raises(BadInput, match="no Spark master"):
        executor(None, "elsewhere")
    with pytest.raises(BadInput, match="--workers 2 is for runs on this machine"):
        executor(2, "local[2]")


def test_plans_are_judged_alike_there(spark: SparkSession) -> None:
    job, optimizers = shop(horizon_s=2, warmup_s=1, period_s=1), planner.optimizers("as-given,random")
    options = {"budget": 4, "references": 2, "racing": True}
    judged = [
        validate([job], optimizers, [RateModel()], simulate, 2, 3, executor=made_by, **options)
        for made_by in (None, Given(spark))
    ]
    assert len(judged[0]) == 2
    assert [replace(row, plan_s=None) for row in judged[0]] == [replace(row, plan_s=None) for row in judged[1]]
