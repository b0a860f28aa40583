"""Late records leave by an output of their own: which, how many and when, by brute force over what came."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.twin.event_jobs import WINDOWS, compute, consolidate, ended, job, logic_of, sink, source
from twin.errors import BadInput
from twin.profiles import FLINK, STORM
from twin.rates.model import RateModel
from twin.scenario import Scenario
from twin.simulation import simulate
from twin.spec import parse
from twin.unsupported import unsupported_features

SECOND_US = 1_000_000
AT_ENDS = FLINK.model_dump(mode="json") | {"watermark_interval_s": None}
"""Flink with watermarks at the ends of panes, so that the order of the records alone says where they are."""


def late_job(
    parallelism: int = 1, late: str | None = "late", windows: Any = ({"length_s": 2},), **more: Any
) -> Scenario:
    """Job source -> counts (windows) -> sink, with a sink of its own for late records."""
    from_source = {name: more.pop(name) for name in ("disorder_s", "slack_s") if name in more}
    counts = compute("counts", windows=list(windows), **({"late_to": late} if late else {}))
    places = {"counts": ["h0", "h1", "h2"][:parallelism], **({"late": "ends"} if late else {})}
    streams = [("source", "counts"), ("counts", "sink"), ("counts", "late")][: 3 if late else 2]
    ends = [sink(), *([sink("late")] if late else [])]
    return job([source(**from_source), counts, *ends], streams, placement=places, **more)


def late_by_force(came: list[tuple[int, int, int]], pane_us: int, slack_us: int) -> list[int]:
    """Digests of records behind the watermark: the newest event time less the slack, down to the end of a pane."""
    newest_us, late = -(10**12), []
    for at_us, _, digest in came:
        newest_us = max(newest_us, at_us)
        if at_us < (newest_us - slack_us) // pane_us * pane_us:
            late.append(digest)
    return late


@pytest.mark.parametrize(
    ("disorder_s", "slack_s", "windows", "pane_s"),
    [
        (1.0, 0.0, [{"length_s": 2}], 2),
        (1.0, 0.4, [{"length_s": 1}], 1),
        (3.0, 0.5, [{"length_s": 2, "every_s": 1}], 1),
        (0.3, 0.0, [{"length_s": 1, "every_s": 0.5}, {"length_s": 2}], 0.5),
        (1.0, 1.0, [{"length_s": 1}], 1),
    ],
)
def test_late_are_those_behind_the_watermark(
    disorder_s: float, slack_s: float, windows: Any, pane_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one source and one subtask, records are late by the order in which they were sent."""
    scenario = late_job(windows=windows, disorder_s=disorder_s, slack_s=slack_s, rate_per_s=100.0)
    run, world = ended(scenario, monkeypatch)
    audit = world.audits["counts"]
    expected = late_by_force(audit.came, round(pane_s * SECOND_US), round(slack_s * SECOND_US))
    on_the_way = len(audit.came) - len(audit.kept) - len(audit.late)
    assert audit.late == set(expected[: len(audit.late)]) and len(expected) - len(audit.late) <= on_the_way
    assert (len(expected) > 0) == (slack_s < disorder_s)
    by_name = {operator.operator: operator for operator in run.operators}
    (task,) = world.tasks["counts"]
    assert len(audit.late) - by_name["late"].records_in in (0, 1)
    assert not any("'late'" in each or "slack_s" in each for each in run.warnings)  # many or none: as asked
    assert by_name["sink"].records_in + by_name["late"].records_in <= by_name["counts"].records_out
    assert logic_of(task).dropped == 0


OVERLAPPING = [
    (2.0, 1.0, [{"length_s": 6, "every_s": 2}], 2),
    (3.0, 0.5, [{"length_s": 2, "every_s": 1}], 1),
    (4.0, 0.0, [{"length_s": 1, "every_s": 0.5}, {"length_s": 3}], 0.5),
    (1.0, 0.0, [{"length_s": 2}], 2),
]


@pytest.mark.parametrize(("disorder_s", "slack_s", "windows", "pane_s"), OVERLAPPING)
@pytest.mark.parametrize("late", ["late", None])
def test_in_flink_a_record_counts_in_every_window_that_is_open(
    disorder_s: float, slack_s: float, windows: Any, pane_s: float, late: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each window has the records that came before it ended, and late are those whose windows all had."""
    given = {"disorder_s": disorder_s, "slack_s": slack_s, "rate_per_s": 100.0, "engine": AT_ENDS}
    scenario = late_job(windows=windows, late=late, **given)
    run, world = ended(scenario, monkeypatch)
    audit, (task,) = world.audits["counts"], world.tasks["counts"]
    newest_us, lost, held = -(10**12), [], Counter[tuple[int, int, int]]()
    for at_us, key, digest in audit.came:
        newest_us = max(newest_us, at_us)
        watermark_us = (newest_us - round(slack_s * SECOND_US)) // round(pane_s * SECOND_US) * round(pane_s * SECOND_US)
        spans = [
            (start, start + round(each["length_s"] * SECOND_US))
            for each in windows
            for every in [round(each.get("every_s", each["length_s"]) * SECOND_US)]
            for start in range(at_us // every * every, at_us - round(each["length_s"] * SECOND_US), -every)
        ]
        still = [(*span, key) for span in spans if span[1] > watermark_us]
        held.update(still)
        lost += [] if still else [digest]
    assert audit.late == set(lost[: len(audit.late)])
    assert len(lost) - len(audit.late) <= len(audit.came) - len(audit.kept) - len(audit.late)
    found = {(start, end, key): records for start, end, key, records, _ in audit.emitted}
    assert found and found == {window: held[window] for window in found}
    assert {end for _, end, _ in held if end <= logic_of(task).watermark_us} == {end for _, end, _ in found}
    assert len(found) == sum(end <= logic_of(task).watermark_us for _, end, _ in held)
    assert any("came late" in line for line in run.warnings) == (late is None and len(audit.late) > 0)
    behind = late_by_force(audit.came, round(pane_s * SECOND_US), round(slack_s * SECOND_US))
    assert len(lost) < len(behind) or not any("every_s" in each for each in windows)


@pytest.mark.parametrize("how", ["restart", "reactive"])
def test_records_behind_the_watermark_move_and_come_again_with_their_windows(how: str) -> None:
    """The audit of all windows holds over moves, failures and restarts, where a record counts in open windows only."""
    move = {"kind": "migration", "at_s": 2.3, "operator": "counts", "key_groups": [0, 1], "to_subtask": 2}
    events = [move, {"kind": "failure", "at_s": 6.7, "host": "h1", "recover_after_s": 0.5}]
    engine = STORM.model_dump(mode="json") | {"lateness": "window", "rescaling": {"how": how, "redeploy_s": 0.5}}
    given = {"windows": WINDOWS, "rate_per_s": 100.0, "late": None, "checkpoint_interval_s": 2.0, "events": events}
    run = simulate(late_job(3, disorder_s=3.0, slack_s=0.5, engine=engine, **given))
    assert {row["kind"] for row in run.event_rows} >= {"migration", "failure"}
    live = engine | {"rescaling": "live"}
    with pytest.raises(BadInput, match="lateness=pane"):
        late_job(3, disorder_s=3.0, slack_s=0.5, engine=live, **given)
    simulate(late_job(3, disorder_s=3.0, slack_s=3.0, engine=live, **given))


def test_results_are_the_same_with_and_without_an_output_for_late_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows are those of a run that drops late records, where the late sink costs nothing."""
    given = {"disorder_s": 1.0, "rate_per_s": 100.0, "parallelism": 3}
    aside, world = ended(late_job(**given), monkeypatch)
    data = late_job(**given).model_dump(mode="json")
    del data["query"]["operators"][1]["late_to"]
    data["query"]["streams"].pop([each["consumer"] for each in data["query"]["streams"]].index("late"))
    data["query"]["operators"] = [each for each in data["query"]["operators"] if each["name"] != "late"]
    for part in (data["plan"]["placement"],):
        del part["late"]
    _, dropping = ended(parse(Scenario, data), monkeypatch)
    assert world.audits["counts"].emitted == dropping.audits["counts"].emitted
    assert world.audits["counts"].late == dropping.audits["counts"].late
    assert sum(logic_of(task).dropped for task in dropping.tasks["counts"]) == len(dropping.audits["counts"].late) > 0
    assert aside.duplicates == 0


def test_late_records_come_again_after_a_failure_and_go_on_after_a_restart() -> None:
    """Conservation and the audit of windows hold with late records over a restart and a failure."""
    engine = {"rescaling": {"how": "restart", "redeploy_s": 0.5}}
    scenario = late_job(3, disorder_s=1.0, rate_per_s=100.0, checkpoint_interval_s=2.0)
    data = scenario.model_dump(mode="json")
    data["engine"] = scenario.engine.model_dump(mode="json") | engine
    data["events"] = [
        {"kind": "scale", "at_s": 3.1, "operator": "counts", "placement": ["h0", "h1"]},
        {"kind": "failure", "at_s": 6.7, "host": "h1", "recover_after_s": 0.5},
    ]
    run = simulate(parse(Scenario, data))
    assert run.duplicates > 0
    data["engine"]["rescaling"] = "live"
    simulate(parse(Scenario, data))


def test_the_rate_model_says_that_it_does_not_see_them() -> None:
    scenario = late_job(disorder_s=1.0)
    assert "late records of counts" in unsupported_features(scenario, ())
    plain = [source(disorder_s=1.0), compute("counts", windows=[{"length_s": 2}]), sink()]
    given = scenario, job(plain, placement={"counts": "h0"})
    known, without = (RateModel(9.0).predict(each, [each.plan]) for each in given)
    assert known["throughput_per_s"][0] == pytest.approx(without["throughput_per_s"][0], rel=1e-6)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"late": "latte"}, "no stream leads"),
        ({"windows": [], "late": "late"}, "but no windows"),
    ],
)
def test_what_cannot_be_is_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        late_job(**change)


def test_more_refusals() -> None:
    chain = [source(), compute("counts", windows=[{"length_s": 1}], late_to="sink"), sink()]
    with pytest.raises(BadInput, match="only consumer"):
        job(chain)
    again = [
        *chain[:1],
        compute("counts", windows=[{"length_s": 1}], late_to="more"),
        compute("more", windows=[{"length_s": 1}]),
        sink(),
    ]
    streams = [("source", "counts"), ("counts", "sink"), ("counts", "more"), ("more", "sink")]
    with pytest.raises(BadInput, match="are late for"):
        job(again, streams)
    move = {
        "kind": "migration",
        "operator": "counts",
        "key_groups": [0],
        "to_subtask": 1,
        "strategy": "smooth",
        "at_s": 1,
    }
    with pytest.raises(BadInput, match="disruptive"):
        late_job(3, events=[move])


@pytest.mark.parametrize("buffers", [False, True])
@pytest.mark.parametrize("more", [{}, {"disorder_s": 1.0, "slack_s": 0.4}])
@pytest.mark.parametrize("moving", [False, True])
def test_records_without_room_are_in_no_window(
    buffers: bool, more: dict[str, float], moving: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compute that takes half of what comes gets the rest through no channel that drops; its windows are right."""
    tight = {"channel_records": 3}
    if buffers:
        few = {"buffers_per_channel": 0, "floating_buffers_per_gate": 1, "max_buffers_per_channel": 2}
        tight = {"channel_records": None, "network_memory": few, "buffer_bytes": 100, "flush_s": 0.1}
    engine = STORM.model_dump(mode="json") | {"name": "tight"} | tight
    slow = compute("counts", windows=[{"length_s": 2, "every_s": 1}], service_time_s=0.03)
    what = job([source(**more), slow, sink()], rate_per_s=60.0, placement={"counts": ["h0", "h1"]}, engine=engine)
    move = {"kind": "migration", "operator": "counts", "key_groups": [0], "to_subtask": 1, "at_s": 3.3}
    data = what.model_dump(mode="json") | {"events": [move | {"strategy": "smooth"}] if moving else []}
    data["query"]["streams"][0]["overflow"] = "drop"
    run, world = ended(parse(Scenario, data), monkeypatch)
    dropped = sum(row["numRecordsDropped"] for row in run.operator_rows if row["operator"] == "source")
    audit = world.audits["counts"]
    assert 40 < len(audit.lost) <= dropped
    assert moving or (dropped == len(audit.lost) and not audit.lost & audit.kept)


def test_sources_that_begin_idle_hold_nothing_up() -> None:
    """A subtask that is idle before it has announced anything begins with its first watermark. Consolidates looked
    through all windows since the beginning of time when it told them that it was awake."""
    few = job([source(idle_s=0.2), compute(), consolidate(), sink()], placement={"source": {"ends": 8}}, rate_per_s=2.0)
    found = simulate(few.with_run(horizon_s=60.0))
    assert found.metrics.records_out > 0 and found.cpu_s < 10.0


def test_results_of_an_idle_sender_that_come_late_count_in_later_windows() -> None:
    """Nobody waits for a compute whose sources are idle. What it sends after a window was formed is in the longer ones
    that end later, as in Flink; each run checks its windows by brute force."""
    operators = [source(idle_s=0.3, disorder_s=0.1), compute(keys=200), consolidate(keys=200), sink()]
    few = job(operators, placement={"source": {"ends": 8}}, rate_per_s=6.0)
    assert all(simulate(few.with_run(horizon_s=30.0, seed=seed)).metrics.records_out > 0 for seed in range(6))
