"""Late records leave by an output of their own: which, how many and when, by brute force over what came."""

from __future__ import annotations

from typing import Any

import pytest

from tests.twin.event_jobs import compute, ended, job, sink, source
from twin.errors import BadInput
from twin.rates.model import RateModel
from twin.scenario import Scenario
from twin.simulation import simulate
from twin.spec import parse
from twin.unsupported import unsupported_features

SECOND_US = 1_000_000


def late_job(replicas: int = 1, late: str | None = "late", windows: Any = ({"length_s": 2},), **more: Any) -> Scenario:
    """Job source -> counts (windows) -> sink, with a sink of its own for late records."""
    from_source = {name: more.pop(name) for name in ("disorder_s", "slack_s") if name in more}
    counts = compute("counts", windows=list(windows), **({"late_to": late} if late else {}))
    places = {"counts": ["h0", "h1", "h2"][:replicas], "late": "ends"}
    streams = [("source", "counts"), ("counts", "sink"), ("counts", "late")]
    return job([source(**from_source), counts, sink(), sink("late")], streams, placement=places, **more)


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
    assert len(audit.late) - by_name["late"].tuples_in in (0, 1)
    assert not any("'late'" in each or "slack_s" in each for each in run.warnings)  # many or none: as asked
    assert by_name["sink"].tuples_in + by_name["late"].tuples_in <= by_name["counts"].tuples_out
    assert task.logic.dropped == 0


def test_results_are_the_same_with_and_without_an_output_for_late_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows are those of a run that drops late records, where the late sink costs nothing."""
    given = {"disorder_s": 1.0, "rate_per_s": 100.0, "replicas": 3}
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
    assert sum(task.logic.dropped for task in dropping.tasks["counts"]) == len(dropping.audits["counts"].late) > 0
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
        "to_replica": 1,
        "strategy": "smooth",
        "at_s": 1,
    }
    with pytest.raises(BadInput, match="disruptive"):
        late_job(3, events=[move])
