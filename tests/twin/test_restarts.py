"""Engines that stop a job to change its plan: the downtime, and that nothing is lost or doubled."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.twin import event_jobs
from tests.twin.changing import HOSTS, STATE, column, job, passing
from tests.twin.checkpointed import steady, taken
from tests.twin.machine.runs import same_however
from tests.twin.random_event_jobs import event_time_scenario
from tests.twin.worlds import chain, dealt, placed
from twin.control import PeriodStatistics, Reconfiguration
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.events import Failure, Migration, Move, Rescale, Scale
from twin.profiles import BRISK, FLINK, STORM
from twin.run import Run
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate
from twin.spec import parse
from twin.world.ports import Port

MB_PER_S = 10.0
REDEPLOY_S = 3.0
OUT = Scale(at_s=8.5, operator="a", placement=("h1", "h3"))


def engine(how: str, **more: Any) -> dict[str, Any]:
    rescaling = {"how": how, "redeploy_s": REDEPLOY_S, "state_mbps": 8 * MB_PER_S} | more
    return STORM.model_dump(mode="json") | {"rescaling": rescaling, "service_scv": 0}


def run(given: Deployment, *events: Any, how: str = "restart", policy: Any = None, checkpoints: Any = None) -> Run:
    data = dict(given) | {"engine": engine(how)}
    settings = RunSettings(horizon_s=30, period_s=1, checkpoint_interval_s=3)
    scenario = Scenario.of(parse(Deployment, data), settings, events)
    return simulate(parse(Scenario, dict(scenario) | {"checkpoints": checkpoints}), policy)


def restarted(result: Run) -> list[dict[str, Any]]:
    """Rows of changes, with their details."""
    rows = [row | row["detail"] for row in result.event_rows]
    return [row for row in rows if row["kind"] in ("scale", "migration")]


class Watching:
    """Policy that keeps the subtask of each key group of an operator, by period."""

    name = "watching"

    def __init__(self, operator: str) -> None:
        self.operator = operator
        self.owners: list[tuple[int, ...]] = []

    def decide(self, statistics: PeriodStatistics) -> Reconfiguration | None:
        self.owners.append(tuple(group.subtask for group in statistics.key_groups[self.operator]))
        return None


@pytest.mark.parametrize("how", ["restart", "reactive", "live"])
def test_a_restart_deals_key_groups_in_contiguous_ranges(how: str) -> None:
    """Eight key groups of unlike weights go to three subtasks as Flink deals them; a live change evens the load."""
    data = passing().model_dump(mode="json", exclude_none=True)
    data["workload"]["keys"] = {"a": {"shares": [51.0, *[7.0] * 7]}}
    policy, scaled = Watching("a"), OUT.model_copy(update={"placement": ("h1", "h1", "h3")})
    run(parse(Deployment, data), scaled, how=how, policy=policy)
    assert policy.owners[0] == (0, 0, 0, 0, 1, 1, 1, 1)
    assert (policy.owners[-1] == (0, 0, 0, 1, 1, 1, 2, 2)) is (how != "live")


def test_a_move_to_a_subtask_that_leaves_with_the_same_restart_is_refused() -> None:
    only = OUT.model_copy(update={"placement": ("h1",)})
    move = Migration(at_s=8.6, operator="a", key_groups=(0,), to_subtask=1)
    _, moved = restarted(run(passing(), only, move))
    assert "no subtask 1" in moved["refused"]


# stop with a savepoint ---------------------------------------------------------------------------------------------


def test_the_downtime_is_the_sum_of_its_parts() -> None:
    """Downtime is the sum of its parts: 8 MB on h1 are written by one host, and read by two, at 10 MB/s each."""
    result = run(passing(), OUT)
    (row,) = restarted(result)
    assert 0.0 < row["drained_s"] < 0.02  # two hops of 5 ms and a service
    assert row["saved_s"] == pytest.approx(8 / MB_PER_S)
    assert row["fetched_s"] == pytest.approx(4 / MB_PER_S)
    assert row["paused_s"] == pytest.approx(row["drained_s"] + 0.8 + REDEPLOY_S + 0.4)
    assert (row["at_s"], row["end_s"]) == (8.5, pytest.approx(8.5 + row["paused_s"]))
    assert row["bytes"] == pytest.approx(8e6)


def test_exactly_once_and_what_waits_is_worked_off() -> None:
    """Each record counts once, and the backlog of 4.2 s at 400/s is worked off at 600/s."""
    result = run(passing(), OUT)
    (row,) = restarted(result)
    assert (row["lost"], row["replayed"], row["duplicates"], result.duplicates) == (0, 0, 0, 0)
    assert result.metrics.records_out == pytest.approx(400 * 30, abs=6)
    queued = zip(column(result, "source", "backlog"), column(result, "m", "queueLength"), strict=True)
    waiting = [backlog + queue for backlog, queue in queued]
    assert waiting[10] - waiting[9] == 400
    assert waiting[12:15] == pytest.approx([400 * (k - 8.5) - (k - row["end_s"]) * 1000 for k in (13, 14, 15)], abs=15)
    caught_up_s = row["end_s"] + 400 * row["paused_s"] / 600
    assert max(k + 1 for k, waits in enumerate(waiting) if waits > 20) == int(caught_up_s)
    assert column(result, "sink", "latencyCount")[9:12] == [0, 0, 0]


def test_a_live_change_pauses_key_groups_alone() -> None:
    assert max(column(run(passing(), OUT, how="live"), "source", "backlog")) <= 1


def test_windows_that_end_meanwhile_are_evaluated_at_the_restart() -> None:
    """Windows of 20 groups, twice a second, that end meanwhile are evaluated at the restart; some have no record."""
    result = run(job(steady(400.0), **STATE), OUT)
    results = column(result, "sink", "latencyCount")
    assert results[5:8] == [40] * 3
    assert results[9:12] == [0] * 3
    assert results[20:25] == [40] * 5
    assert sum(results) <= sum(column(run(job(steady(400.0), **STATE)), "sink", "latencyCount"))


def test_a_subtask_that_moves_and_another_operator_share_a_restart() -> None:
    move = Migration(at_s=8.5, operator="m", subtask=0, to="h3")
    rows = restarted(run(passing(), OUT, move, Migration(at_s=8.505, operator="sink", subtask=0, to="h0")))
    assert len({row["end_s"] for row in rows}) == 1
    assert {row["paused_s"] for row in rows} == {rows[0]["paused_s"]}
    assert [row["restarted"] for row in rows if "restarted" in row] == [5]


@pytest.mark.parametrize("how", ["restart", "reactive"])
@pytest.mark.parametrize("to", [{"to_subtask": 1}, {"to": "h3"}])
def test_no_change_counts_on_a_subtask_that_leaves_with_the_same_restart(how: str, to: dict[str, Any]) -> None:
    """Key groups do not go to a subtask that leaves: there is no second one any more, and a new one is made on h3."""
    away, leave = (
        Scale(at_s=8.5, operator="a", placement=("h1", "h3")),
        Scale(at_s=15.0, operator="a", placement=("h1",)),
    )
    result = run(passing(), away, leave, Migration(at_s=15.0, operator="a", key_groups=(0, 1), **to), how=how)
    assert len({row["end_s"] for row in restarted(result)[1:]}) == 1
    assert any("no subtask 1; it has 1" in line for line in result.warnings) is ("to_subtask" in to)
    alive = {row["subtask"] for row in result.subtask_rows if row["operator"] == "a" and row["end_s"] == 30.0}
    assert alive == ({0} if "to_subtask" in to else {0, 3})


@pytest.mark.parametrize("how", ["restart", "reactive"])
def test_a_subtask_that_leaves_with_the_same_restart_does_not_move(how: str) -> None:
    leave, move = (
        Scale(at_s=8.5, operator="a", placement=("h1",)),
        Migration(at_s=8.5, operator="a", subtask=1, to="h3"),
    )
    result = run(passing(), leave, move, how=how)
    assert restarted(result)[1]["refused"] == "it has no subtask 1; it has 1, counted from 0"


def test_what_is_asked_for_during_a_restart_waits_for_the_next() -> None:
    late = Scale(at_s=12.4, operator="a", placement=("h1",))  # its state is being read
    first, second = restarted(run(passing(), OUT, late))
    assert second["end_s"] - second["paused_s"] == first["end_s"]
    assert second["paused_s"] == pytest.approx(second["drained_s"] + 0.4 + REDEPLOY_S + 0.8)


def test_all_that_a_policy_orders_at_once_takes_one_restart() -> None:
    class Once:
        name = "once"
        asked = False

        def decide(self, statistics: PeriodStatistics) -> Reconfiguration | None:
            if self.asked or statistics.end_s < 8:
                return None
            self.asked = True
            moves = (Move(operator="sink", subtask=0, to="h0"),)
            return Reconfiguration(moves, (Rescale(operator="a", placement=("h1", "h3", "h3")),), reason="why not")

    result = run(passing(), policy=Once())
    scale, move = restarted(result)
    assert scale["end_s"] == move["end_s"] == pytest.approx(8 + 0.8 + REDEPLOY_S + 0.6, abs=0.2)
    assert result.metrics.records_out == pytest.approx(400 * 30, abs=6)


def calling(*kinds: dict[str, Any], rate_per_s: float = 100.0) -> Deployment:
    operators = [{"name": f"a{number or ''}"} | kind for number, kind in enumerate(kinds)]
    places = dict.fromkeys(("source", *(each["name"] for each in operators), "sink"), "h1")
    return chain(operators, steady(rate_per_s), hosts=HOSTS, placement=places)


SLOW = {"kind": "async", "service_time_s": 0, "latency_s": 5.0, "latency_scv": 0, "capacity": 10**4}


@pytest.mark.parametrize("more", [{}, {"ordered": True}, {"latency_scv": 1}, {"rate_per_s": 250}])
def test_calls_under_way_are_part_of_the_savepoint_and_made_again(more: dict[str, Any]) -> None:
    """The stop waits for no call: of 100 a second that take 5 s each, 500 are made again, and answered 5 s later."""
    result = run(calling(SLOW | more), OUT)
    (row,) = restarted(result)
    assert row["drained_s"] < 0.02  # a hop of 5 ms at most, and a service
    assert row["paused_s"] == pytest.approx(REDEPLOY_S, abs=0.02)
    assert result.duplicates == row["lost"] == 0
    if more in ({}, {"ordered": True}):
        came = column(result, "sink", "latencyCount")
        assert came[8:16] == [pytest.approx(50, abs=2), 0, 0, 0, 0, 0, 0, 0]
        assert came[16] == pytest.approx(500 + 300 + 48, abs=6)  # made again, come in the pause, and since
        assert result.metrics.records_out == pytest.approx(100 * 25, abs=6)


def test_a_subtask_that_two_changes_leave_without_key_groups_goes_away_once() -> None:
    """A subtask that was made for two key groups loses both in one restart, and goes when its calls are answered."""
    out = [Migration(at_s=8.5, operator="a", key_groups=(group,), to="h3") for group in (0, 1)]
    back = [Migration(at_s=20.0, operator="a", key_groups=(group,), to="h1") for group in (0, 1)]
    result = run(calling(SLOW | {"key_groups": 4}), *out, *back)
    ends_s = [row["end_s"] for row in restarted(result)]
    assert ends_s[0] == ends_s[1] < ends_s[2] < ends_s[3] + 5.5
    assert {row["subtask"] for row in result.subtask_rows if row["operator"] == "a" and row["end_s"] == 30.0} == {0}


def test_results_of_calls_before_the_barrier_pass_the_calls_behind_them() -> None:
    """Of two calls in a row each is saved where the barrier meets it, and no record is lost or doubled."""
    for how in ("restart", "reactive"):
        given = calling(SLOW | {"latency_s": 1.0, "latency_scv": 1}, {"kind": "map"}, SLOW | {"latency_s": 0.5})
        result = run(given, OUT, how=how)
        (row,) = restarted(result)
        assert row["paused_s"] == pytest.approx(REDEPLOY_S, abs=0.05)
        assert result.metrics.records_out - result.duplicates == pytest.approx(100 * 28.5, abs=60)


def test_a_sink_waits_for_its_answers_before_the_savepoint() -> None:
    """A sink waits for its answers, as Flink's AsyncSinkWriter, which keeps no request in its state."""
    data = calling({"kind": "map"}).model_dump(mode="json")
    data["query"]["operators"][-1] = {"kind": "external-sink", "name": "sink", "capacity": 100, "latency_s": 0.2}
    data["query"]["operators"][-1]["latency_scv"] = 0
    result = run(parse(Deployment, data), OUT)
    (row,) = restarted(result)
    assert row["drained_s"] == pytest.approx(0.2, abs=0.011)
    assert result.duplicates == 0


@pytest.mark.parametrize("mode", ["aligned", "unaligned"])
def test_a_savepoint_waits_for_barriers_of_the_checkpoint_that_it_ends(mode: str) -> None:
    """Barriers that left at 10.6 s are 0.2 s on their way, as records are, of which none is by 10.7 s."""
    hosts = [host | {"latency_ms": 200 if host["name"] == "h0" else 0} for host in HOSTS]
    places = {"source": "h0", "a": "h1", "sink": "h1"}
    far = chain([{"kind": "map", "name": "a"}], steady(1.0), hosts=hosts, placement=places)
    far = parse(Deployment, dict(far) | {"engine": engine("restart")})
    given = Scenario.of(far, RunSettings(horizon_s=20, period_s=1), [Scale(at_s=10.7, operator="a", placement=("h3",))])
    checkpoints = {"interval_s": 20.0, "first_s": 10.6, "mode": mode}
    (row,) = restarted(simulate(parse(Scenario, dict(given) | {"checkpoints": checkpoints})))
    assert row["drained_s"] == pytest.approx(0.1, abs=0.01)


def test_batches_do_not_wait_for_their_flush() -> None:
    """350 records have waited since 5 s, and would do so until 10 s; sent at once, they take a millisecond each."""
    given = passing(100.0).model_dump(mode="json")
    given["engine"] = engine("restart") | {"batch_records": 1000, "flush_s": 5.0}
    scenario = Scenario.of(parse(Deployment, given), RunSettings(horizon_s=30, period_s=1), [OUT])
    (row,) = restarted(simulate(scenario))
    assert row["drained_s"] < 0.4


# a restart from the last checkpoint --------------------------------------------------------------------------------


def test_reactive_goes_back_to_the_last_checkpoint() -> None:
    """A reactive change at 8.5 s goes back to 6 s: 1,000 records are read, and come, twice."""
    result = run(passing(), OUT, how="reactive")
    (row,) = restarted(result)
    assert row["checkpoint_s"] == 6
    assert row["replayed"] == pytest.approx(2.5 * 400, abs=2)
    assert result.duplicates == row["duplicates"] == pytest.approx(2.5 * 400, abs=6)
    assert row["paused_s"] == pytest.approx(REDEPLOY_S + 0.4, abs=0.05)
    assert result.metrics.records_out - result.duplicates == pytest.approx(400 * 30, abs=6)


@pytest.mark.parametrize("how", ["restart", "reactive"])
def test_exactly_once_sinks_show_nothing_twice(how: str) -> None:
    result = run(passing(), OUT, how=how, checkpoints={"interval_s": 3, "sinks": "exactly-once"})
    assert result.duplicates == 0
    assert result.metrics.records_out == pytest.approx(400 * taken(result)[-1]["at_s"], abs=6)


# storage, failures, and whole jobs ---------------------------------------------------------------------------------


def test_a_store_of_checkpoints_takes_savepoints_too() -> None:
    """A store of checkpoints takes savepoints, too, at 1 MB/s of all hosts together."""
    (row,) = restarted(run(passing(), OUT, checkpoints={"interval_s": 100, "storage_mbps": 8.0}))
    assert (row["saved_s"], row["fetched_s"]) == (pytest.approx(8), pytest.approx(8))


def test_a_savepoint_that_a_failure_interrupts_is_made_again() -> None:
    result = run(passing(), OUT, Failure(at_s=8.9, host="h2", recover_after_s=1))
    (row,) = restarted(result)
    assert row["interrupted"] == 1
    assert row["end_s"] == pytest.approx(9.9 + 0.8 + REDEPLOY_S + 0.4, abs=1.5)  # what was read again comes first
    assert result.metrics.records_out - result.duplicates == pytest.approx(400 * 30, abs=6)


@pytest.mark.parametrize(("at_s", "end_s"), [(11.0, 14.4), (12.5, 14.5)])
def test_a_failure_prolongs_a_restart_and_does_not_undo_it(at_s: float, end_s: float) -> None:
    """A failure during deployment, or while state is read, prolongs a restart and does not undo it."""
    result = run(passing(), OUT, Failure(at_s=at_s, host="h1", recover_after_s=2 if at_s > 12 else 3))
    (row,) = restarted(result)
    assert row["end_s"] == pytest.approx(end_s, abs=0.01)
    assert row["after"] == 2 and "interrupted" not in row
    assert result.duplicates == 0
    assert result.metrics.records_out == pytest.approx(400 * 30, abs=6)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["restart", "reactive"]), st.sampled_from(["pane", "window"]))
def test_no_window_over_event_time_is_other_than_it_should_be(seed: int, how: str, lateness: str) -> None:
    """Event-time windows are those of brute force over restarts."""
    given = event_time_scenario(Random(seed))
    data = given.model_dump(mode="json")
    data["engine"] = engine(how, redeploy_s=0.5) | {"lateness": lateness}
    data["events"] = [
        {name: value for name, value in event.items() if name != "strategy"}
        for event in data["events"]
        if event["kind"] not in ("repartition", "split", "combine")
    ]
    simulate(parse(Scenario, data))


def test_subtasks_over_event_time_move_while_the_job_stands_still() -> None:
    move = {"kind": "migration", "operator": "compute", "subtask": 0, "to": "ends", "at_s": 3.2}
    with pytest.raises(BadInput, match="cannot move"):
        event_jobs.job(events=[move])
    (row,) = simulate(event_jobs.job(events=[move], engine=engine("restart", redeploy_s=1))).event_rows
    assert row["paused_s"] == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("how", ["restart", "reactive"])
def test_a_run_is_the_same_however_code_runs(how: str) -> None:
    data = dict(passing()) | {"engine": engine(how)}
    events = [OUT, Failure(at_s=20.3, host="h1", recover_after_s=1, lost=True)]
    scenario = Scenario.of(parse(Deployment, data), RunSettings(horizon_s=30, period_s=1), events)
    same_however(scenario)


# which engine does what --------------------------------------------------------------------------------------------


def test_flink_restarts_and_the_others_change_live() -> None:
    assert [each.rescaling.how for each in (FLINK, STORM, BRISK)] == ["restart", "live", "live"]
    assert "rescaling" not in STORM.model_dump(mode="json")
    told = parse(Deployment, dict(passing()) | {"engine": FLINK.model_dump() | {"rescaling": "live"}})
    assert told.engine.rescaling.how == "live"


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (
            {"kind": "migration", "operator": "compute", "key_groups": [0], "to_subtask": 1, "strategy": "smooth"},
            "leave",
        ),
        ({"kind": "combine", "operator": "merge"}, "rescaling=live"),
    ],
)
def test_what_only_a_running_job_can_do_is_refused(event: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        event_jobs.job(events=[{**event, "at_s": 3.0}], engine=engine("restart"))


def test_a_common_queue_is_in_no_savepoint() -> None:
    places = {"source": "h0", "m": ["h0", "h0"], "a": "h1", "sink": "h0"}
    middle = [{"kind": "map", "name": name} for name in "ma"]
    queue = chain(middle, 10, hosts=HOSTS, placement=places, partitioning={"m": "shared"})
    with pytest.raises(BadInput, match="share one queue"):
        run(queue, OUT)


# forward streams ---------------------------------------------------------------------------------------------------


def paired(count: int) -> Deployment:
    """Job of two maps with a forward stream between them."""
    middle = [{"kind": "map", "name": name, "service_time_s": 1e-3, "service_scv": 0} for name in ("m", "n")]
    places = {"source": "h0", "m": ["h0"] * count, "n": ["h1"] * count, "sink": "h2"}
    return chain(middle, steady(400.0), hosts=HOSTS, placement=places, partitioning={"n": "forward"})


def both(*places: str, at_s: float = 8.5) -> list[Scale]:
    return [Scale(at_s=at_s, operator=name, placement=places) for name in ("m", "n")]


@pytest.mark.parametrize(
    ("count", "places"), [(1, ("h0", "h1", "h3")), (3, ("h1",)), (2, ("h3", "h3")), (2, ("h0", "h0", "h1", "h1"))]
)
def test_a_restart_leads_forward_streams_to_the_subtask_of_the_same_number(count: int, places: tuple[str, ...]) -> None:
    """Both ends change at the same time, and again; each record comes once, through two subtasks of one number."""
    data = dict(paired(count)) | {"engine": engine("restart")}
    events = [*both(*places), *both("h2", "h3", at_s=18.5)]
    result = same_however(Scenario.of(parse(Deployment, data), RunSettings(horizon_s=28, period_s=1), events))
    assert result.metrics.records_out == pytest.approx(400 * 28, abs=6) and result.duplicates == 0
    for from_s, to_s, subtasks in ((0, 8, count), (14, 18, len(places)), (24, 28, 2)):
        rows = [row for row in result.subtask_rows if from_s <= row["start_s"] < to_s and row["numRecordsIn"]]
        found = [[row["numRecordsIn"] for row in rows if row["operator"] == name] for name in ("m", "n")]
        assert found[1] == pytest.approx(found[0], abs=3), "but for what is on its way"
        assert len(found[0]) == subtasks * (to_s - from_s)


def test_a_failure_after_a_forward_stream_was_led_anew_loses_nothing() -> None:
    result = run(paired(1), *both("h0", "h1"), Failure(at_s=19.5, host="h1", recover_after_s=1.0))
    assert result.metrics.records_out - result.duplicates == pytest.approx(400 * 30, abs=20)
    assert result.duplicates > 0


def test_one_end_of_a_forward_stream_alone_is_not_scaled() -> None:
    for scale, words in zip(both("h0", "h1"), ("scale 'n' alike at the same time", "scale 'm' alike"), strict=True):
        with pytest.raises(BadInput, match=words):
            run(paired(1), scale)
    first, second = both("h0", "h1")
    for other in (second.model_copy(update={"at_s": 9.0}), second.model_copy(update={"placement": ("h0",) * 3})):
        with pytest.raises(BadInput, match="needs equal subtasks"):
            run(paired(1), first, other)
    with pytest.raises(BadInput, match="needs equal subtasks; use rebalance or hash"):
        run(paired(1), first, second, how="live")


def test_whether_records_wait_is_told_without_a_count_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Among marks of event time, as by the count: a job with very many records that wait is stopped in seconds."""
    told, plain = set[bool](), Port.holds_records.fget
    assert plain is not None

    def checked(port: Port) -> bool:
        found = plain(port)
        assert found == (port.waiting() > 0)
        told.add(found)
        return found

    monkeypatch.setattr(Port, "holds_records", property(checked))
    window = {"policy": "time", "size_s": 1.0, "time": "event"}
    work = [
        {"kind": "map", "name": "a", "service_time_s": 0.01, "service_scv": 0},
        {"kind": "aggregate", "name": "sums", "window": window, "service_time_s": 1e-4},
    ]
    given = placed(dealt(chain(work, {"law": "poisson", "rate_per_s": 2000.0}), a="rebalance"), source=("h",) * 3)
    data = dict(given) | {"engine": FLINK}
    scale = Scale(at_s=8.5, operator="a", placement=("h",) * 2)
    settings = RunSettings(horizon_s=60, period_s=1)
    found = simulate(Scenario.of(parse(Deployment, data), settings, (scale,)))
    assert told == {False, True} and len(restarted(found)) == 1
