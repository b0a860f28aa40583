"""Parts of the page of `twin serve`: changes, controls, what is kept, and workers."""

from __future__ import annotations

import asyncio
import os
import re
import time
from pathlib import Path

import pytest

from scenarios.files.scenario_file import load, set_values
from scenarios.files.yaml_text import parse_text
from scenarios.questions.variants import with_all_events
from streamtwin.serve import page
from streamtwin.serve.asking import cancelled, happening, moved, told
from streamtwin.serve.inquiry import EVENT, SET, Alteration, Inquiry, Store, controls, flow, turned
from streamtwin.serve.session import Replay, replayed
from streamtwin.serve.work import Made, RunTask, Workers
from twin.errors import BadInput

JOB = "edge-filter"


@pytest.mark.parametrize(
    "value", [1, 1.5, True, None, "a b", "yes", "010", "1e3", "worker-1", ["a", {"b": 2}], {}, "é:", "- x"]
)
def test_what_is_written_reads_back(value: object) -> None:
    assert parse_text(flow(value), "") == value


def after(asked: Inquiry, control: str, value: str, stroke: str = "") -> Inquiry:
    """Inquiry when somebody has turned a control."""
    for change in turned(load(asked.name), asked, control, value, stroke):
        asked = asked.changed(change)
    return asked


def test_keys_of_an_operator_without_key_groups_can_be_skewed() -> None:
    """An operator without key groups gets Flink's number of them before its keys are skewed, as a change of its own."""
    once = after(Inquiry("failover"), "skew per-page", "1", "stroke")
    twice = after(once, "skew per-page", "1.5", "stroke")
    assert [each.text for each in twice.changes] == [
        "query.operators.per-page.key_groups=128",
        "workload.keys={per-page: {zipf: 1.5}}",
    ]
    assert twice.scenario().workload.keys["per-page"].zipf == 1.5


def test_a_stroke_is_one_change_and_undo_takes_the_last() -> None:
    given = load("failover")
    asked = Inquiry("failover")
    for value in ("2", "3", "4"):
        asked = after(asked, "load", value, "stroke")
    asked = after(asked, "subtasks per-page", "6")
    assert len(asked.changes) == 2
    assert asked.scenario().plan.parallelism("per-page") == 6
    assert asked.scenario().workload.arrivals["clicks"].mean_rate_per_s == 8000
    assert asked.dropped(-1).scenario().plan == given.plan
    assert asked.dropped(0).scenario().workload == given.workload
    assert asked.dropped(-1).dropped(-1).scenario() == given


def test_every_control_of_the_library_takes_the_value_that_it_has() -> None:
    from scenarios.files import registry

    for name in registry.names():
        given = load(name)
        first = {control.group: control for control in reversed(controls(given, given).values())}
        for control in first.values():
            value = str(control.value)
            if control.value != "none":
                again = after(Inquiry(name), control.name, value)
                assert again.scenario().workload.arrivals.keys() == given.workload.arrivals.keys()
                assert controls(given, again.scenario())[control.name].value == pytest.approx(control.value)


def test_a_glossary_has_what_each_is_without_its_options() -> None:
    shown = page._glossary({"a": "Does (as in x, 3) it (most: 2, ids: ())", "b": "Does that", "c": ""})
    assert "<li>a: Does (as in x, 3) it</li><li>b: Does that</li></ul>" in shown


def test_events_and_moves_are_the_command_lines() -> None:
    given = load("failover")
    event = happening(given, "failure", {"host": "worker-1", "at_s": "1min", "recover_after_s": "", "lost": ""})
    assert event == Alteration(EVENT, "kind: failure, at_s: 1min, host: worker-1")
    assert with_all_events(given, [event.text]).events[-1].at_s == 60
    grown = happening(given, "scale", {"operator": "per-page", "parallelism": "6", "at_s": "100"})
    assert with_all_events(given, [grown.text]).events[-1].at_s == 100
    tied = load("clicks").with_set("query.streams.per-user->table.partitioning", "forward")
    several = happening(tied, "scale", {"operator": "per-user", "parallelism": "9", "at_s": "100"})
    assert [each.operator for each in with_all_events(tied, [several.text]).events] == ["per-user", "table"]
    move = moved(given, ["per-page"], "worker-2", "worker-3")
    assert move.flag == SET
    assert Inquiry("failover").changed(move).scenario().plan.placement["per-page"].count("worker-3") == 2
    with pytest.raises(BadInput, match="there already"):
        moved(given, ["per-page"], "worker-1", "worker-1")


def test_an_event_can_be_taken_back_whatever_was_added_after_it() -> None:
    given = load("failover")
    asked = Inquiry("failover").changed(Alteration(EVENT, "kind: failure, at_s: 1min, host: worker-1"))
    for left in reversed(range(len(given.events))):
        asked = asked.changed(cancelled(asked.scenario(asked.values), 0))
        assert len(asked.scenario().events) == left + 1
    assert asked.changes[1].said == f"without: {told(given.events[0].model_dump(mode='json', exclude_none=True))}"
    assert told(asked.scenario().events[0].model_dump()) == "60 s: worker-1 fails; the job waits for it to the end"


def test_a_replay_shows_state_on_its_way_from_subtask_to_subtask() -> None:
    """A replay shows moving state in shares of all there is, at places that the plan has then; nothing else moves."""
    job = set_values(load("failover").with_run(horizon_s=40), ["workload.arrivals.clicks.rate_per_s=200"])
    event = {"kind": "scale", "operator": "per-page", "at_s": 20, "placement": {"worker-1": 2, "worker-3": 2}}
    job = with_all_events(job.model_copy(update={"events": ()}), [flow(event)[1:-1]])
    replay = Replay.of(job, replayed(job))
    assert replay.moving == {"per-page": "stateBytes"}
    for number, end_s in enumerate(replay.ends_s):
        _, _, owned = replay.picture(number)
        assert sum(map(float, re.findall("flex-grow: ([0-9.]+)", owned))) == pytest.approx(1, abs=1e-3)
        others = ["2 on worker-2", "3 on worker-2"] if end_s <= 20 else ["4 on worker-3", "5 on worker-3"]
        assert re.findall(r">(\d on worker-\d)<", owned) == ["0 on worker-1", "1 on worker-1", *others]


def test_a_workspace_that_does_not_hold_changes_is_said_so(tmp_path: Path) -> None:
    store = Store(tmp_path, {JOB: JOB})
    store.put(JOB, Inquiry(JOB).changed(Alteration(SET, "run.seed=3")))
    (file,) = tmp_path.glob("*.json")
    assert Store(tmp_path, {JOB: JOB}).get(JOB).changes == (Alteration(SET, "run.seed=3"),)
    file.write_text("{")
    with pytest.raises(BadInput, match="remove it"):
        Store(tmp_path, {JOB: JOB}).get(JOB)


async def played(first: RunTask, *then: RunTask) -> list[Made | None]:
    """Results of a task that is begun, and of others that are wanted instead a little later."""
    told = asyncio.Event()
    workers = Workers(1, told.set)
    try:
        workers.want("one page", [first])
        await asyncio.sleep(0.1)
        workers.want("one page" if then[0].kind == first.kind else "another", then)
        while None in map(workers.made, then):
            await asyncio.wait_for(told.wait(), 50)
            told.clear()
        return [workers.made(task) for task in (first, *then)]
    finally:
        workers.close()


def test_workers_drop_what_nobody_wants_and_go_on() -> None:
    """Workers drop a begun task that is no longer wanted; a crash is reported, and a new process goes on."""
    slow, crash = RunTask("slow", "outcome", 1, time.sleep, (60,)), RunTask("crash", "outcome", 1, os._exit, (1,))
    dropped, crashed, made = asyncio.run(played(slow, crash, RunTask("quick", "outcome", 2, abs, (-3,))))
    assert dropped is None and made is not None and made.result == 3
    assert crashed is not None and "died" in crashed.refused


def test_a_first_answer_does_not_wait_for_a_comparison() -> None:
    """A first answer does not wait for a comparison that takes a minute."""
    slow, first = (RunTask("slow", "outcome", 1, time.sleep, (60,)), RunTask("first", "run", 0, abs, (-3,)))
    waits, made = asyncio.run(played(slow, first))
    assert waits is None and made is not None and made.result == 3
