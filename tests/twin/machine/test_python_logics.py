"""Logics that users write in Python run at once: they keep records, and draw numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import pytest

from tests.twin.machine.runs import same_however
from tests.twin.worlds import chain
from twin.kinds.basic import Map
from twin.kinds.operator import OperatorBase
from twin.operators.logic import Logic
from twin.operators.records import Record
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate
from twin.world.mechanisms import IN_PYTHON


@dataclass(frozen=True)
class Pairing:
    """Holds a record back until the next one has come."""


class PairLogic(Logic):
    """Logic that sends two records together, the later one first, and the first of them twice by chance."""

    def __init__(self) -> None:
        super().__init__()
        self.first: Record | None = None

    def plan(self, record: Record) -> float:
        return 0.0 if self.first is None else 2 * self.out.send_s

    def emit(self, record: Record, at_s: float) -> None:
        if self.first is None:
            self.first = record
            return
        pair, self.first = (record, self.first), None
        again = [pair[1].copy()] if self.station.draws.uniform() < 0.5 else []
        for each in (*pair, *again):
            each.at_s = at_s
            self.out.send(each)

    def snapshot(self, again: bool) -> object:
        return None if self.first is None else self.first.copy()

    def restore(self, kept: object, at_s: float) -> int:
        assert kept is None or isinstance(kept, Record)
        self.first = kept
        return 0

    def held(self) -> float:
        return float(self.first is not None)


@pytest.fixture
def pairing() -> Iterator[None]:
    with (
        patch.object(Map, "mechanism", property(lambda _: Pairing())),
        patch.dict(IN_PYTHON, {Pairing: lambda *_: PairLogic()}),
    ):
        yield


def job(fused: tuple[tuple[str, ...], ...] = (), **more: Any) -> Scenario:
    hosts = [{"name": each, "cpu_percent": 100, "ram_mb": 1000, "bandwidth_mbps": 50, "latency_ms": 1} for each in "ab"]
    operators = [
        {"kind": "map", "name": "pairs", "service_time_s": 1e-4},
        {"kind": "filter", "name": "some", "selectivity": 0.5, "service_time_s": 1e-4},
    ]
    placement = {"source": "a", "pairs": "b", "some": "b", "sink": "a"}
    deployment = chain(operators, 300.0, hosts=hosts, placement=placement)
    plan = deployment.plan.model_copy(update={"fused": fused})
    run = RunSettings(horizon_s=4.0, period_s=1.0, checkpoint_interval_s=0.3)
    return Scenario(**{**dict(deployment), "plan": plan, "run": run, **more})


@pytest.mark.usefixtures("pairing")
@pytest.mark.parametrize("fused", [(), (("pairs", "some"),)])
def test_a_logic_that_keeps_records_runs_at_once(fused: tuple[tuple[str, ...], ...]) -> None:
    run = same_however(job(fused))
    pairs = next(each for each in run.operators if each.operator == "pairs")
    assert pairs.records_out == pytest.approx(1.25 * pairs.records_in, rel=0.05)


@pytest.mark.usefixtures("pairing")
def test_its_state_goes_back_to_a_checkpoint() -> None:
    failure = {"kind": "failure", "host": "b", "at_s": 1.7, "recover_after_s": 0.2}
    run = same_however(job(events=[failure]))
    (row,) = run.event_rows
    assert row["detail"]["replayed"] > 0 and run.metrics.records_out > 300


@pytest.mark.usefixtures("pairing")
def test_an_error_of_a_logic_ends_the_run() -> None:
    with patch.object(PairLogic, "emit", side_effect=ZeroDivisionError), pytest.raises(ZeroDivisionError):
        simulate(job())


def test_what_a_kind_lacks_is_said_with_its_place() -> None:
    words = "Pairing, the mechanism of Map, has no logic; add one to IN_PYTHON"
    with patch.object(Map, "mechanism", property(lambda _: Pairing())), pytest.raises(NotImplementedError, match=words):
        simulate(job())
    with pytest.raises(NotImplementedError, match="OperatorBase has no mechanism; write one"):
        _ = OperatorBase(name="new").mechanism
