"""Events as specs, and the simple ones at work: rates, slow hosts, slow networks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scenarios.files import scenario_file
from tests.twin.changing import HOSTS, job, run
from tests.twin.worlds import chain, dealt, simulated
from twin.errors import BadInput
from twin.events import AnyEvent, LinkDegradation, RateChange, Scale, SlowDown
from twin.scenario import Scenario, config_hash
from twin.spec import parse
from twin.trace import read_table, write_trace


def scenario(*events: dict[str, Any]) -> Scenario:
    return parse(Scenario, {**job().model_dump(mode="json"), "events": list(events)})


@pytest.mark.parametrize(
    ("event", "complaint"),
    [
        ({"kind": "failur", "host": "h0"}, "unknown kind 'failur'; did you mean 'failure'"),
        ({"kind": "failure", "host": "h7"}, "unknown host 'h7'; known: h0, h1"),
        ({"kind": "failure", "host": "h0", "at_s": -1}, "at_s.*greater than or equal to 0"),
        ({"kind": "slow-down", "host": "h0", "factor": 0.5}, "factor.*greater than or equal to 1"),
        ({"kind": "rate-change", "source": "sorce", "factor": 2}, "unknown source 'sorce'; did you mean 'source'"),
        ({"kind": "rate-change", "source": "source"}, "give either factor or rate_per_s"),
        ({"kind": "rate-change", "source": "source", "factor": 2, "rate_per_s": 3}, "give either factor or"),
        ({"kind": "rate-change", "source": "source", "factor": 0}, "factor.*greater than"),
        ({"kind": "link-degradation"}, "give either host .* or link"),
        ({"kind": "link-degradation", "link": ["h0", "l"], "latency_factor": 2}, "unknown link 'h0 - l'"),
        ({"kind": "migration", "operator": "aa", "subtask": 0, "to": "h1"}, "unknown operator 'aa'"),
        ({"kind": "migration", "operator": "a", "subtask": 2, "to": "h1"}, "has no subtask 2; it has 2"),
        ({"kind": "migration", "operator": "a", "subtask": 0, "to": "h1/1"}, "has no socket 1"),
        ({"kind": "migration", "operator": "a", "subtask": 0}, "give 'to: HOST'"),
        ({"kind": "migration", "operator": "a", "to": "h1"}, "give either subtask or key_groups"),
        ({"kind": "migration", "operator": "m", "key_groups": [0], "to_subtask": 0}, "'m' has no key groups"),
        ({"kind": "migration", "operator": "a", "key_groups": [0, 0], "to_subtask": 0}, "listed once"),
        ({"kind": "scale", "operator": "source", "placement": "h0"}, "subtasks read fixed partitions"),
        ({"kind": "scale", "operator": "a", "placement": ["h0", "h9"]}, "unknown host 'h9'"),
        ({"kind": "scale", "operator": "a", "placement": []}, "placement"),
    ],
)
def test_an_event_that_does_not_fit_is_refused(event: dict[str, Any], complaint: str) -> None:
    with pytest.raises(BadInput, match=complaint):
        scenario({"at_s": 1, **event})


def test_simulate_checks_events_too() -> None:
    with pytest.raises(BadInput, match="unknown host 'h9'"):
        run(job(), SlowDown(at_s=1, host="h9", factor=2))


def test_a_forward_stream_fixes_its_subtasks() -> None:
    deployment = job()
    with pytest.raises(BadInput, match="forward stream"):
        run(dealt(deployment, m="forward"), Scale(at_s=1, operator="m", placement=("h0", "h1")))


def test_events_are_read_from_and_written_to_scenario_files() -> None:
    given = scenario(
        {"kind": "failure", "at_s": 3, "host": "h1", "recover_after_s": 2},
        {"kind": "scale", "at_s": 9, "operator": "a", "placement": {"h1": 3}},
    )
    assert scenario_file.parse_scenario(scenario_file.dump(given), "again").events == given.events
    assert config_hash(given) != config_hash(given.with_events())


def test_an_event_beyond_the_horizon_is_warned_of() -> None:
    result = run(job(), RateChange(at_s=30, source="source", factor=2), horizon_s=5)
    assert "beyond the horizon" in result.warnings[0]
    assert not result.event_rows


def test_a_degraded_network_card_adds_latency_and_then_recovers() -> None:
    deployment = chain([], 100, hosts=HOSTS, placement={"source": "h0", "sink": "h1"})
    slow = LinkDegradation(at_s=4, host="h0", latency_factor=20, duration_s=4)
    rows = run(deployment, slow, period_s=4, horizon_s=12).operator_rows
    latency = [row["processingLatencySum_s"] / row["latencyCount"] for row in rows if row["operator"] == "sink"]
    assert latency[1] - latency[0] == pytest.approx(19 * 0.005, rel=0.06)
    assert latency[2] - latency[0] == pytest.approx(0.0, abs=0.01)


def test_lost_bandwidth_limits_what_leaves_the_host() -> None:
    deployment = chain([], 2000, hosts=HOSTS, placement={"source": "h0", "sink": "h1"})
    sizes = deployment.engine.bytes_of(deployment.query.columns_out["source"])
    factor = 1000 * sizes * 8 / 100e6  # leaves bandwidth for 1000 records/s
    slow = LinkDegradation(at_s=0, host="h0", bandwidth_factor=factor)
    result = run(deployment, slow, warmup_s=4, period_s=4)
    assert result.metrics.throughput_per_s == pytest.approx(1000, rel=0.03)


def test_events_are_in_the_trace_and_the_document(tmp_path: Any) -> None:
    slow: AnyEvent = SlowDown(at_s=2, host="h0", factor=3, duration_s=1)
    result = run(job(), slow, horizon_s=5)
    write_trace(result.rows("r"), tmp_path / "trace")
    (row,) = read_table(tmp_path / "trace", "events").to_pylist()
    assert (row["kind"], row["component"], row["at_s"], row["end_s"]) == ("slow-down", "h0", 2.0, 3.0)
    assert json.loads(row["detail"]) == {"factor": 3.0}
    assert result.to_dict()["events"][0]["kind"] == "slow-down"


def test_an_event_for_later_changes_nothing_before() -> None:
    """A run with an event in the last period has the same draws, and equals the run without it up to there."""
    plain = simulated(job(), horizon_s=10, period_s=5)
    changed = run(job(), SlowDown(at_s=9, host="h0", factor=2), horizon_s=10, period_s=5)
    assert changed.operator_rows[:4] == plain.operator_rows[:4]
