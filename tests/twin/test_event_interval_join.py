"""Interval joins over event time: every match by brute force, late records, watermarks, and stored records."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from tests.twin import event_jobs
from twin.errors import BadInput
from twin.operators.joins import TimedIntervalLogic
from twin.operators.panes import Dated
from twin.operators.records import Record
from twin.rates.model import RateModel
from twin.run import Run
from twin.scenario import Scenario
from twin.simulation import simulate

ORDERS, SHIPMENTS = 60.0, 40.0
BOUNDS = [(-1.0, 1.0), (0.25, 1.0), (-2.0, -0.5), (-0.5, 2.0)]
MOVE = {"kind": "migration", "operator": "join", "key_groups": [0, 1], "to_subtask": 2, "at_s": 4.3}
OUT = {"kind": "scale", "operator": "join", "placement": ["h0", "h1", "h2", "h0"], "at_s": 4.3}
FAILS = {"kind": "failure", "host": "h1", "at_s": 5.7, "recover_after_s": 1.0}


def job(
    lower_s: float, upper_s: float, *, behind: Any = (), sources: Any = None, join: Any = None, **run: Any
) -> Scenario:
    """Job of orders joined with shipments on three hosts, and operators behind the join."""
    given = {"kind": "interval-join", "name": "join", "left": "orders", "right": "shipments", "time": "event"}
    given |= {"lower_s": lower_s, "upper_s": upper_s, "service_time_s": 0, "keys": 12, "key_groups": 6} | (join or {})
    sides = [event_jobs.source(name, **(sources or {})) for name in ("orders", "shipments")]
    ends = [*behind, event_jobs.sink()]
    row = ["join", *(each["name"] for each in ends)]
    streams = [("orders", "join"), ("shipments", "join"), *pairwise(row)]
    if "late_to" in given:
        ends.append(event_jobs.sink(given["late_to"]))
        streams.append(("join", given["late_to"]))
    made = event_jobs.job([*sides, given, *ends], streams, **run)
    made = made.with_set("workload.arrivals.orders.rate_per_s", ORDERS)
    return made.with_set("workload.arrivals.shipments.rate_per_s", SHIPMENTS)


class Noted:
    """Records that all subtasks of joins took, dropped and sent, noted by the test, without what they store."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.taken: list[tuple[int, int, int, float]] = []
        self.late: list[int] = []
        self.sent: Counter[tuple[int, int]] = Counter()
        emit, aside, send = TimedIntervalLogic.emit, TimedIntervalLogic.put_aside, TimedIntervalLogic.send

        def emits(logic: TimedIntervalLogic, record: Record, at_s: float) -> None:
            before = len(self.late)
            emit(logic, record, at_s)
            assert isinstance(record, Dated) and record.inbox is not None
            if len(self.late) == before:
                self.taken.append((record.inbox.side, record.at_us, record.key, record.born_s))

        def puts(logic: TimedIntervalLogic, record: Dated, at_s: float) -> None:
            self.late.append(record.at_us)
            aside(logic, record, at_s)

        def sends(logic: TimedIntervalLogic, result: Record) -> None:
            assert isinstance(result, Dated)
            assert result.at_us >= logic.watermark_us
            self.sent[result.key, result.at_us] += 1
            send(logic, result)

        monkeypatch.setattr(TimedIntervalLogic, "emit", emits)
        monkeypatch.setattr(TimedIntervalLogic, "put_aside", puts)
        monkeypatch.setattr(TimedIntervalLogic, "send", sends)

    def pairs(self, lower_s: float, upper_s: float) -> Counter[tuple[int, int]]:
        """Keys and times of all results of the taken records, by brute force."""
        orders, shipments = ([each for each in self.taken if each[0] == side] for side in (0, 1))
        return Counter(
            (key, max(at, other))
            for _, at, key, _ in orders
            for _, other, its, _ in shipments
            if its == key and round(lower_s * 1e6) <= other - at <= round(upper_s * 1e6)
        )


@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("sources", [{}, {"disorder_s": 0.8, "slack_s": 0.8}, {"disorder_s": 0.8}])
def test_matches_are_those_of_brute_force(
    bounds: tuple[float, float], sources: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All pairs of records that are not late match, once each. Slack that covers the disorder leaves none late."""
    noted = Noted(monkeypatch)
    result = simulate(job(*bounds, sources=sources))
    assert noted.sent == noted.pairs(*bounds)
    assert sum(noted.sent.values()) > 150
    assert bool(noted.late) == (sources == {"disorder_s": 0.8})
    assert result.metrics.records_out <= sum(noted.sent.values()) <= result.metrics.records_out + 40  # under way


def test_event_times_match_whatever_the_delay_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Orders that come half a second later meet the same shipments; processing time would shift the bounds."""
    counts = []
    for far in ("ends", "far"):
        with monkeypatch.context() as patch:
            noted = Noted(patch)
            data = job(0.0, 0.4).model_dump(mode="json", exclude_none=True)
            data["cluster"]["hosts"].append({**event_jobs.HOST, "name": "far", "latency_ms": 500, "cpu_percent": 1600})
            data["plan"]["placement"]["orders"] = far
            simulate(Scenario.model_validate(data))
            counts.append(noted.sent)
            assert noted.sent == noted.pairs(0.0, 0.4)
    near, late = counts
    assert 0.85 < sum(late.values()) / sum(near.values()) < 1.0  # those of the last half second are under way
    assert not late - near


@pytest.mark.parametrize("events", [[MOVE], [OUT], [FAILS], [MOVE, FAILS], [OUT, FAILS]])
@pytest.mark.parametrize("how", ["live", "restart"])
def test_changes_and_failures_lose_no_match(events: Any, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs of all records are sent once if nothing is late, and more often only where a failure reads again."""
    noted = Noted(monkeypatch)
    rescaling = {"engine": {**event_jobs.job().engine.model_dump(mode="json"), "rescaling": how}}
    result = simulate(job(-0.5, 1.0, sources={"disorder_s": 0.3, "slack_s": 0.3}, events=events, **rescaling))
    noted.taken = list(dict.fromkeys(noted.taken))
    pairs = noted.pairs(-0.5, 1.0)
    assert set(noted.sent) == set(pairs)
    if FAILS not in events:
        assert noted.sent == pairs and not result.duplicates
    assert not noted.late


def test_late_records_go_where_they_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    noted = Noted(monkeypatch)
    made = job(-0.5, 0.5, sources={"disorder_s": 1.0}, join={"late_to": "aside"})
    rows = simulate(made).operator_rows
    came = {name: sum(row["numRecordsIn"] for row in rows if row["operator"] == name) for name in ("aside", "sink")}
    assert came["aside"] == pytest.approx(len(noted.late), abs=3)
    assert came["sink"] == pytest.approx(sum(noted.sent.values()), abs=30)
    assert len(noted.late) > 100
    assert "late records of join" in RateModel().blind_to(made)


def test_a_warning_counts_what_was_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    noted = Noted(monkeypatch)
    (said,) = [line for line in simulate(job(-0.5, 0.5, sources={"disorder_s": 1.0})).warnings if "late" in line]
    assert f"join: {len(noted.late)} of" in said and "larger slack_s" in said


def test_watermarks_pass_on() -> None:
    """Watermarks pass through the join: a window of a second behind it is whole, and nothing is late."""
    windows = event_jobs.compute("count", windows=[{"length_s": 1}], keys=4, key_groups=4)
    result = simulate(job(-0.5, 1.0, behind=[windows], sources={"disorder_s": 0.2, "slack_s": 0.2}))
    assert sum(row["numRecordsOut"] for row in result.operator_rows if row["operator"] == "count") >= 4 * 6


def held(scenario: Scenario) -> float:
    """Mean number of stored records, from the time on at which all that is stored can have come."""
    rows = [row for row in simulate(scenario).operator_rows if row["operator"] == "join" and row["start_s"] >= 5.0]
    return float(np.mean([row["stateBytes"] for row in rows])) / scenario.engine.input_bytes(scenario.query, "join")


@pytest.mark.parametrize("bounds", [(-0.5, 2.0), (0.25, 1.0)])
def test_what_is_stored_waits_for_the_watermark(bounds: tuple[float, float]) -> None:
    """Records are stored by Little's law for their bound and the slack, until the end of the next 0.2 s, 0.1 s on
    average, and until both sources have read a record behind that: 1/60 + 1/40 - 1/100 s."""
    waits_s = 0.7 + 0.1 + 1 / ORDERS + 1 / SHIPMENTS - 1 / (ORDERS + SHIPMENTS)
    made = [job(*bounds, sources={"slack_s": 0.7}, join={"record_bytes": 1}, horizon_s=30.0, seed=k) for k in range(5)]
    law = ORDERS * (max(bounds[1], 0) + waits_s) + SHIPMENTS * (max(-bounds[0], 0) + waits_s)
    assert np.mean([held(each) for each in made]) == pytest.approx(law, rel=0.05)


def rate(result: Run) -> float:
    return result.metrics.throughput_per_s


@pytest.mark.parametrize(("lower_s", "upper_s", "disorder_s"), [(-0.5, 2.0, 0.0), (0.0, 0.3, 1.0)])
def test_rates_and_ages_are_those_of_poisson_streams(lower_s: float, upper_s: float, disorder_s: float) -> None:
    """Matches: rate_a rate_b (upper - lower) / keys, as old as E|D + d (U - V)|, D in bounds, two delays up to d."""
    sources = {"disorder_s": disorder_s, "slack_s": disorder_s}
    made = [job(lower_s, upper_s, sources=sources, horizon_s=40.0, warmup_s=6.0, seed=seed) for seed in range(8)]
    runs = [simulate(each) for each in made]
    expected = ORDERS * SHIPMENTS * (upper_s - lower_s) / 12
    apart_s, first_s, second_s = np.random.default_rng(1).uniform(size=(3, 10**6))
    apart_s = lower_s + (upper_s - lower_s) * apart_s + disorder_s * (first_s - second_s)
    age_s = float(np.abs(apart_s).mean())
    assert np.mean([rate(run) for run in runs]) == pytest.approx(expected, rel=0.03)
    assert np.mean([run.metrics.value("processing_latency_s") for run in runs]) == pytest.approx(age_s, rel=0.02)
    said = RateModel(horizon_s=1e5).predict(made[0], [made[0].plan])
    assert said["throughput_per_s"][0] == pytest.approx(expected, rel=1e-3)
    assert said["processing_latency_s"][0] == pytest.approx(age_s, rel=0.02)


@pytest.mark.parametrize(
    ("join", "words"),
    [
        ({"time": "processing", "late_to": "aside"}, "no record is late in processing time"),
    ],
)
def test_mistakes_get_a_line(join: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        job(-1.0, 1.0, join=join)
