"""Numbers by subtask: each has its own, and together they are the operator's, also after a run is read back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import streamtwin
from scenarios.files.run_folder import read_run, write_run
from streamtwin.export import export
from tests.twin.changing import job
from tests.twin.worlds import deployment, simulated, sink
from twin.deployment import Deployment
from twin.events import Scale
from twin.run import Run

SERVICE_S = 1e-3


def uneven(rate_per_s: float) -> Deployment:
    """Job of three partitions on two subtasks, of which the first reads two."""
    source = {"kind": "kafka-source", "name": "kafka", "partitions": 3, "service_time_s": SERVICE_S, "service_scv": 0}
    return deployment(
        [source, sink()], [("kafka", "sink")], {"kafka": rate_per_s}, placement={"kafka": ["h"] * 2}, engine="flink"
    )


def ran(what: Deployment) -> Run:
    return simulated(what, horizon_s=70, warmup_s=10, seed=1)


def test_the_subtask_that_reads_two_of_three_partitions_is_twice_as_busy() -> None:
    (kafka, _) = ran(uneven(1_000)).operators
    for subtask, share in zip(kafka.subtasks, (2 / 3, 1 / 3), strict=True):
        error = 5 * (share * 1_000 / 60) ** 0.5  # five standard errors of a Poisson count in a minute
        assert subtask.rate_in_per_s == pytest.approx(share * 1_000, abs=error)
        assert subtask.busy == pytest.approx(subtask.rate_in_per_s * SERVICE_S, abs=1e-4)
    assert kafka.busiest == kafka.subtasks[0]


def test_what_is_too_much_for_one_subtask_waits_for_it_alone() -> None:
    (kafka, _) = ran(uneven(1_800)).operators
    full, other = kafka.subtasks
    assert full.busy == pytest.approx(1) and other.busy == pytest.approx(0.6, abs=0.02)
    grown = 70 * 200  # it gets 1,200 records a second and takes 1,000
    assert full.queue_max == pytest.approx(grown, abs=5 * (70 * 1_200) ** 0.5) and other.queue_max < 100
    assert full.queue_mean == pytest.approx(grown * 45 / 70, rel=0.1)  # ends of periods, from 20 s to 70 s


def test_subtasks_that_come_and_go_are_numbered_and_count_while_they_are_there() -> None:
    events = (
        Scale(at_s=20, operator="m", placement=("h0", "h2", "h3")),
        Scale(at_s=40, operator="m", placement=("h0",)),
    )
    operator = next(
        each for each in simulated(job(), *events, horizon_s=60, warmup_s=10, seed=1).operators if each.operator == "m"
    )
    assert [each.subtask for each in operator.subtasks] == [0, 1, 2]
    assert sum(each.records_in for each in operator.subtasks) == operator.records_in
    assert operator.subtasks[1].rate_in_per_s == pytest.approx(400 / 3, rel=0.1)  # of the seconds that it was there


def test_they_are_read_back_exported_and_framed(tmp_path: Path) -> None:
    run = ran(uneven(1_000))
    write_run(run, "uneven", tmp_path / "run")
    kept = read_run(tmp_path / "run")
    assert kept.run.operators == run.operators and kept.run.subtask_rows == run.subtask_rows
    export(kept, "csv", tmp_path / "csv")
    assert len((tmp_path / "csv" / "subtasks.csv").read_text().splitlines()) == 1 + len(run.subtask_rows)
    result = streamtwin.Result(*kept)
    assert list(result.subtasks["busy"]) == [each.busy for operator in run.operators for each in operator.subtasks]
    assert len(result.periods("subtasks")) == len(run.subtask_rows) and "subtasks" not in result.operators


def test_a_trace_without_them_is_a_run_without_them(tmp_path: Path) -> None:
    run = ran(uneven(1_000))
    write_run(replace(run, subtask_rows=()), "uneven", tmp_path / "run")
    operators = read_run(tmp_path / "run").run.operators
    assert operators == tuple(replace(each, subtasks=()) for each in run.operators)
    assert operators[0].busiest is None
