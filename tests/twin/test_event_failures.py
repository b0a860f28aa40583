"""Event-time windows are whole, and once, while hosts fail, and key groups and subtasks come and go."""

from __future__ import annotations

from typing import Any

import pytest

from tests.twin.event_jobs import compute, consolidate, ended, job, sink, source
from twin.change import kept, migration, running_job
from twin.change.checkpoint import NoCheckpoints
from twin.errors import BadInput
from twin.guards.conservation import ConservationError, emitted
from twin.operators.panes import Noted, SpanStore, WindowNotes
from twin.operators.watermark import TimedKept
from twin.profiles import FLINK
from twin.scenario import Scenario
from twin.simulation import simulate

FAILURE = {"kind": "failure", "host": "h1", "at_s": 4.7, "recover_after_s": 1.0}


def test_windows_since_the_checkpoint_come_twice_and_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a failure at 4.7 s back to 4 s, windows that ended in between, and no others, are duplicates."""
    windows = [{"length_s": 1, "every_s": 0.25}]
    scenario = job(
        [source(disorder_s=0.3, slack_s=0.3), compute(partial_s=0.25), consolidate(windows=windows), sink()],
        events=[FAILURE],
        checkpoint_interval_s=2.0,
    )
    run, world = ended(scenario, monkeypatch)
    before, after = emitted(world.undone[0].audits["merge"])[0], emitted(world.audits["merge"])[0]
    mark_us = 4_000_000 - 300_000  # what was complete at the checkpoint, but for what was under way
    again = {key for key in before if key[1] > mark_us}
    assert {end_us for _, end_us, _ in again} == {3_750_000, 4_000_000, 4_250_000}
    assert all(after[key] == held for key, held in before.items())
    assert run.event_rows[0]["detail"]["duplicates"] == len(again)
    assert len(emitted(world.audits["merge"])[1]) == 0


def test_the_books_of_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replayed records are those that came since the checkpoint, with the same keys and event times."""
    run, world = ended(job(events=[FAILURE], checkpoint_interval_s=2.0), monkeypatch)
    came, again = (set(each.came) for each in (world.undone[0].audits["compute"], world.audits["compute"]))
    assert came <= again
    replayed = run.event_rows[0]["detail"]["replayed"]
    assert replayed == pytest.approx(sum(at_us >= 4_000_000 for at_us, _, _ in came), abs=2)


def test_a_window_that_comes_again_and_is_another_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def back(notes: WindowNotes, noted: Noted) -> None:
        going_back(notes, noted)
        notes.keys.update({digest: (key + 1) % 12 for digest, key in notes.keys.items()})

    going_back = WindowNotes.back
    monkeypatch.setattr(WindowNotes, "back", back)
    chain = [source(), compute(partial_s=0.25), consolidate(windows=[{"length_s": 1, "every_s": 0.25}]), sink()]
    with pytest.raises(ConservationError, match="after a failure"):
        simulate(job(chain, events=[FAILURE], checkpoint_interval_s=2.0))


MOVE = {"kind": "migration", "operator": "merge", "at_s": 3.2, "key_groups": [0, 1, 2, 3], "to_subtask": 2}


def shaken(strategy: str, at_s: float, **state: Any) -> Scenario:
    """Scenario in which a consolidate's key groups move while a failure comes."""
    chain = [source(), compute(**state), consolidate(**state), sink()]
    events = [{**MOVE, "strategy": strategy}, {**FAILURE, "at_s": at_s}]
    return job(chain, events=events, checkpoint_interval_s=0.5, rate_per_s=120.0)


@pytest.mark.parametrize("what", ["contents", "what was under way", "state on its way", "what was sent again"])
def test_what_a_checkpoint_must_hold(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With each part of a checkpoint left out in turn, windows are wrong, and the run says so."""
    scenario = shaken("disruptive", 4.2, state_bytes_per_key=3e5)
    if what == "what was sent again":
        scenario = shaken("instant", 3.3)
    simulate(scenario)
    match what:
        case "contents":
            monkeypatch.setattr(SpanStore, "copy", lambda store: store)  # what is kept goes on changing
        case "what was under way":
            monkeypatch.setattr(kept, "_in_order", lambda *_: [])
        case "state on its way":
            monkeypatch.setattr(TimedKept, "__init__", _without_sent_off(TimedKept.__init__))
        case _:
            monkeypatch.setattr(migration, "_send_again", _after_a_checkpoint(migration._send_again))
    with pytest.raises(ConservationError):
        simulate(scenario)


def _without_sent_off(make: Any) -> Any:
    def made(self: Any, logic: Any) -> None:
        make(self, logic)
        self.sent_off = []

    return made


def _after_a_checkpoint(send: Any) -> Any:
    """Function that sends as if no checkpoint were taken behind it."""

    def sent(member: Any, *rest: Any) -> None:
        send(member, *rest)
        object.__setattr__(member.job, "checkpoints", NoCheckpoints())

    return sent


def test_a_migration_that_a_failure_interrupts_begins_anew_and_others_go_on() -> None:
    for strategy, interrupted in (("disruptive", 1), ("smooth", None), ("instant", None)):
        run = simulate(shaken(strategy, 3.3, state_bytes_per_key=1e6))
        record = next(each for each in run.event_rows if each["kind"] == "migration")
        assert record["detail"].get("interrupted") == interrupted
        assert record["end_s"] > 4.3  # not before the job is up again


PASS = {"kind": "map", "name": "pass", "service_time_s": 1e-4}


def scaled(events: list[dict[str, Any]], seed: int = 1, **run: Any) -> Scenario:
    late = {"disorder_s": 0.4, "slack_s": 0.4} if seed % 2 else {}
    chain = [source(**late), PASS, compute(), consolidate(), sink()]
    run = {"checkpoint_interval_s": 1.0, "seed": seed} | run
    return job(chain, events=events, placement={"pass": ["h0", "h1"]}, **run)


OUT = {"kind": "scale", "operator": "compute", "at_s": 2.7, "placement": ["h0", "h1", "h2", "ends", "ends"]}
IN = {"kind": "scale", "operator": "compute", "at_s": 4.2, "placement": ["h1"]}


def test_a_subtask_comes_with_key_groups_and_goes_when_its_panes_are_in_no_window(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A subtask goes when its panes are in no window: records up to 4.2 s are in windows until 7 s."""
    run, world = ended(scaled([{**OUT, "placement": ["h0", "h1", "h2", "ends"]}, IN]), monkeypatch)
    out, back = (each["detail"] | {"end_s": each["end_s"]} for each in run.event_rows)
    assert (out["before"], out["after"], back["before"], back["after"]) == (3, 4, 4, 1)
    assert out["end_s"] == pytest.approx(2.7)  # instant
    assert back["end_s"] == pytest.approx(7.0 + 0.4, abs=0.3)  # and the slack
    assert len(world.tasks["compute"]) == 1
    assert len(world.ledger.retired["compute"]) == 3
    assert world.ledger.retired["compute"][-1].records_in > 0


def test_who_leaves_with_a_restart_is_gone_with_it() -> None:
    """What it held has moved, although windows of an hour are open."""
    engine = {**dict(FLINK), "rescaling": {"how": "restart", "redeploy_s": 1.0}}
    run = simulate(job([source(), compute(windows=[{"length_s": 3600}]), sink()], events=[IN], engine=engine))
    (row,) = run.event_rows
    assert (row["detail"]["before"], row["detail"]["after"]) == (3, 1)
    assert row["end_s"] == pytest.approx(row["at_s"] + row["paused_s"]) and 1.0 < row["paused_s"] < 1.1


def test_without_joining_windows_would_be_closed_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    scale = {**OUT, "placement": ["h0", "h1", "h2", "ends"]}
    simulate(scaled([scale], rate_per_s=300.0))
    forgotten = _without_consumers(running_job._join_event_time)
    monkeypatch.setattr(running_job, "_join_event_time", forgotten)
    with pytest.raises((ConservationError, AssertionError)):
        simulate(scaled([scale], rate_per_s=300.0))


def _without_consumers(join: Any) -> Any:
    """Function that adds a subtask of which consumers do not hear, so that its control items come from nowhere."""

    def joined(running: Any, operator: str, task: Any) -> None:
        outputs = running.world.query.outputs(operator)
        behind = [each for out in outputs for each in running.world.tasks[out.consumer]]
        before = [each.alignment.copy() for each in behind]
        join(running, operator, task)
        for each, alignment in zip(behind, before, strict=True):
            each.alignment = alignment

    return joined


def test_who_leaves_without_a_word_holds_all_windows_up(monkeypatch: pytest.MonkeyPatch) -> None:
    scale = {"kind": "scale", "operator": "pass", "at_s": 2.7, "placement": ["h1"]}
    _, whole = ended(scaled([scale]), monkeypatch)
    monkeypatch.setattr(running_job, "KINDS", ())
    _, held_up = ended(scaled([scale]), monkeypatch)
    far_us = [max(world.history().far_us["merge"]) for world in (whole, held_up)]
    assert far_us[0] >= 8e6
    assert far_us[1] < 2.7e6


@pytest.mark.parametrize(
    ("event", "more", "why"),
    [
        ({"operator": "merge"}, {"combined": True}, "one component with another"),
        ({"operator": "compute", "placement": ["h0"] * 5}, {}, "4 key groups for 5 subtasks"),
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
    assert run.event_rows[1]["detail"]["refused"] == "it has no subtask 2; it has 1, counted from 0"
