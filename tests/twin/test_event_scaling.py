"""Replicas of operators over event time, and of those before them, come and go: no window notices."""

from __future__ import annotations

from typing import Any

import pytest

from tests.twin.event_jobs import compute, consolidate, ended, job, sink, source
from twin.change import replicas
from twin.errors import BadInput
from twin.guards.conservation import ConservationError
from twin.scenario import Scenario
from twin.simulation import simulate

PASS = {"kind": "map", "name": "pass", "service_time_s": 1e-4}


def shaken(events: list[dict[str, Any]], seed: int = 1, **run: Any) -> Scenario:
    late = {"disorder_s": 0.4, "slack_s": 0.4} if seed % 2 else {}
    chain = [source(**late), PASS, compute(), consolidate(), sink()]
    run = {"checkpoint_interval_s": 1.0, "seed": seed} | run
    return job(chain, events=events, placement={"pass": ["h0", "h1"]}, **run)


OUT = {"kind": "scale", "operator": "compute", "at_s": 2.7, "placement": ["h0", "h1", "h2", "ends", "ends"]}
IN = {"kind": "scale", "operator": "compute", "at_s": 4.2, "placement": ["h1"]}


def test_a_replica_comes_with_key_groups_and_goes_when_its_panes_are_in_no_window(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its last tuples come up to 4.2 s; windows of 3 s have them until 7.5 s."""
    run, world = ended(shaken([{**OUT, "placement": ["h0", "h1", "h2", "ends"]}, IN]), monkeypatch)
    out, back = (each["detail"] | {"end_s": each["end_s"]} for each in run.event_rows)
    assert (out["before"], out["after"], back["before"], back["after"]) == (3, 4, 4, 1)
    assert out["end_s"] == pytest.approx(2.7)  # instant
    assert back["end_s"] == pytest.approx(7.5 + 0.4, abs=0.3)  # and the slack
    assert len(world.tasks["compute"]) == 1
    assert len(world.ledger.retired["compute"]) == 3
    assert world.ledger.retired["compute"][-1].tuples_in > 0


def test_without_joining_windows_would_be_closed_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    scale = {**OUT, "placement": ["h0", "h1", "h2", "ends"]}
    simulate(shaken([scale], rate_per_s=300.0))
    forgotten = _without_consumers(replicas._join_event_time)
    monkeypatch.setattr(replicas, "_join_event_time", forgotten)
    with pytest.raises((ConservationError, AssertionError)):
        simulate(shaken([scale], rate_per_s=300.0))


def _without_consumers(join: Any) -> Any:
    """Nobody behind it hears of the new replica, whose control items come from nowhere then."""

    def joined(running: Any, operator: str, task: Any) -> None:
        outputs = running.wiring.query.outputs(operator)
        behind = [each for out in outputs for each in running.world.tasks[out.consumer]]
        before = [each.alignment.copy() for each in behind]
        join(running, operator, task)
        for each, alignment in zip(behind, before, strict=True):
            each.alignment = alignment

    return joined


def test_who_leaves_without_a_word_holds_all_windows_up(monkeypatch: pytest.MonkeyPatch) -> None:
    scale = {"kind": "scale", "operator": "pass", "at_s": 2.7, "placement": ["h1"]}
    _, whole = ended(shaken([scale]), monkeypatch)
    monkeypatch.setattr(replicas, "KINDS", ())
    _, held_up = ended(shaken([scale]), monkeypatch)
    far_us = [max(world.history().far_us["merge"]) for world in (whole, held_up)]
    assert far_us[0] >= 8e6
    assert far_us[1] < 2.7e6


@pytest.mark.parametrize(
    ("event", "more", "why"),
    [
        ({"operator": "merge"}, {"combined": True}, "one component with another"),
        ({"operator": "compute", "placement": ["h0"] * 5}, {}, "4 key groups for 5 replicas"),
        ({"operator": "source"}, {}, "fixed partitions"),
    ],
)
def test_scalings_that_cannot_be(event: dict[str, Any], more: dict[str, Any], why: str) -> None:
    scale = {"kind": "scale", "at_s": 1.0, "placement": ["h0"], **event}
    with pytest.raises(BadInput, match=why):
        job([source(), compute(), consolidate(**more), sink()], events=[scale])


def test_owners_that_scaling_took_away_are_refused_and_said() -> None:
    back = {"kind": "scale", "operator": "merge", "at_s": 1.0, "placement": ["h0"]}
    later = {"kind": "repartition", "operator": "merge", "at_s": 6.0, "owners": [0, 0, 2, 0]}
    run = simulate(job(events=[back, later]))
    assert run.event_rows[1]["detail"]["refused"] == "it has no replica 2; it has 1, counted from 0"
