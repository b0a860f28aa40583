"""Regular joins, OVER aggregation and the n highest rows against plain lists of rows, and their laws."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from tests.twin.changing import HOSTS, column
from tests.twin.followed import Followed, Taken, following
from tests.twin.worlds import chain, joined, noting_worlds, simulated
from twin.checkpoints import Checkpoints
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.events import AnyEvent, Failure, Migration, Scale
from twin.job import compile as compiled
from twin.kinds.flow import Mixing
from twin.operators.rows import OverLogic, RegularJoinLogic, TopLogic
from twin.rates.arrays import JobArrays
from twin.rates.model import RateModel
from twin.run import Run
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate

COUNTED = ("numRecordsOut", "numRecordsIn")
RATE, KEYS, END_S = 200.0, 60, 16.0
HOLDING: dict[str, type] = {"regular-join": RegularJoinLogic, "over-aggregate": OverLogic, "top-n": TopLogic}


def job(kind: str, **more: Any) -> Deployment:
    """Job of one or two sources -> an operator of that kind at h1 and h2 -> sink."""
    operator: dict[str, Any] = {
        "kind": kind,
        "name": "op",
        "service_time_s": 1e-4,
        "keys": KEYS,
        "key_groups": 16,
    } | more
    places: dict[str, Any] = {"source": "h0", "op": ["h1", "h2"], "sink": "h3"}
    if kind != "regular-join":
        return chain([operator], RATE, record_bytes=50, hosts=HOSTS, placement=places)
    operator = {"left": "orders", "right": "rates"} | operator
    places |= {"orders": "h0", "rates": "h0"}
    return joined(
        operator,
        {"orders": 30.0, "rates": 20.0},
        hosts=HOSTS,
        placement={k: v for k, v in places.items() if k != "source"},
    )


def ran(
    what: Deployment, *events: AnyEvent, horizon_s: float = END_S, seed: int = 0
) -> tuple[Run, Followed, list[Any]]:
    """A run, what was followed of it, and the rows that are left."""
    operator = what.query.operator("op")
    with following(HOLDING[operator.kind]) as found, noting_worlds() as worlds:
        run = simulated(what, *events, horizon_s=horizon_s, warmup_s=0.0, period_s=2.0, seed=seed)
    left = []
    for task in worlds[0].tasks["op"]:
        inner: Any = task.logic.steps[0]
        inner = inner.inner
        inner.station.env.now, inner.came_s = horizon_s, horizon_s
        assert inner.held_bytes() == inner.held() * inner.record_bytes()
        left += [(number, row.key, row.at) for number, table in enumerate(inner.tables) for row in table.copy()]
    return run, found, sorted(left)


EVENTS: dict[str, tuple[AnyEvent, ...]] = {
    "plain": (),
    "failure": (Failure(at_s=7.0, host="h1", recover_after_s=2.0),),
    "scale": (
        Scale(at_s=5.0, operator="op", placement=("h1", "h2", "h3")),
        Scale(at_s=11.0, operator="op", placement=("h2",)),
    ),
    "move": (Migration(at_s=6.0, operator="op", key_groups=(0, 1, 2), to_subtask=1),),
}


def alive(rows: list[Any], now_s: float, ttl_s: float | None) -> list[Any]:
    return [row for row in rows if ttl_s is None or row[0] + ttl_s > now_s]


@pytest.mark.parametrize("events", EVENTS)
@pytest.mark.parametrize("ttl_s", [None, 1.2])
@pytest.mark.parametrize("kind", ["inner", "left", "right", "full"])
def test_joins_send_what_brute_force_says(kind: str, ttl_s: float | None, events: str) -> None:
    """Each record meets all rows of the other side that live; rows of outer sides leave alone first, once."""
    outer = kind in ("left", "full"), kind in ("right", "full")
    run, found, left = ran(job("regular-join", type=kind, ttl_s=ttl_s), *EVENTS[events])
    sides: tuple[dict[int, list[Any]], ...] = defaultdict(list), defaultdict(list)
    for each in found.order:
        met = alive(sides[1 - each.side][each.key], each.came_s, ttl_s)
        alone = not met and outer[each.side]
        withdrawn = sum(row[1] for row in met) if outer[1 - each.side] else 0
        assert len(each.results) == len(met) + alone + withdrawn
        for row in met:
            row[1] = False
        sides[each.side][each.key].append([each.came_s, not met])
    expected = [
        (side, key, row[0]) for side in (0, 1) for key, rows in sides[side].items() for row in alive(rows, END_S, ttl_s)
    ]
    assert left == sorted(expected)
    assert len(found.order) > 600 and (found.undone > 0) == (events == "failure")
    if events == "plain":
        assert sum(column(run, "op", "numRecordsOut")) == found.sent


@pytest.mark.parametrize("events", EVENTS)
@pytest.mark.parametrize("more", [{"rows": 3}, {"range_s": 0.8}])
def test_over_keeps_the_rows_that_count(more: dict[str, Any], events: str) -> None:
    """Each record leaves once, with its stamps; rows are the last ones of each key, or those of the range."""
    _, found, left = ran(job("over-aggregate", **more), *EVENTS[events])
    rows: dict[int, list[Taken]] = defaultdict(list)
    for each in found.order:
        assert [(result.born_s, result.key) for result in each.results] == [(each.born_s, each.key)]
        rows[each.key].append(each)
    if "rows" in more:
        expected = [(0, key, each.came_s) for key, came in rows.items() for each in came[-4:]]
    else:
        expected = [(0, each.key, each.came_s) for each in found.order if each.came_s + 0.8 > END_S]
    assert left == sorted(expected)
    assert len(found.order) > 2500


@pytest.mark.parametrize("events", EVENTS)
@pytest.mark.parametrize(
    "more", [{}, {"row_number": True}, {"row_number": True, "changelog": "upsert"}, {"ttl_s": 2.0}]
)
def test_the_highest_rows_are_those_of_brute_force(more: dict[str, Any], events: str) -> None:
    """Lists are the n highest values; a record that enters sends what has changed between both lists."""
    _, found, left = ran(job("top-n", n=3, **more), *EVENTS[events])
    assert (found.undone > 0) == (events == "failure")
    lists: dict[int, list[Any]] = defaultdict(list)
    for each in found.order:
        before = alive(lists[each.key], each.came_s, more.get("ttl_s"))
        after = sorted([*before, (each.came_s, each.value)], key=lambda row: -row[1])[:3]
        if more.get("row_number"):
            ranks = [(old, new) for old, new in zip([*before, *[None] * 3][:3], after, strict=False) if old != new]
            per_change = 1 if "changelog" in more else 2
            sent = sum(per_change if old is not None else 1 for old, _ in ranks)
        else:
            sent = len(set(after) - set(before)) + len(set(before) - set(after))
        assert len(each.results) == sent
        lists[each.key] = after
    expected = [(0, key, row[0]) for key, rows in lists.items() for row in alive(rows, END_S, more.get("ttl_s"))]
    assert left == sorted(expected)
    assert len(found.order) > 2500


LAWS: dict[str, Deployment] = {
    **{f"{kind} join": job("regular-join", type=kind) for kind in ("inner", "left", "full")},
    **{
        f"{kind} join, {ttl_s} s": job("regular-join", type=kind, ttl_s=ttl_s)
        for kind in ("inner", "full")
        for ttl_s in (0.7, 5.0)
    },
    **{
        f"{kind} join of keys that go, {ttl_s} s": job("regular-join", type=kind, ttl_s=ttl_s, keys=9, key_records=6)
        for kind in ("inner", "left", "full")
        for ttl_s in (None, 0.7, 5.0)
    },
    "rows": job("over-aggregate", rows=5),
    "range": job("over-aggregate", range_s=1.5),
    "top 3": job("top-n", n=3),
    "top 1": job("top-n", n=1),
    "ranks": job("top-n", n=4, row_number=True),
    "ranks, upsert": job("top-n", n=4, row_number=True, changelog="upsert"),
    "a tenth enters": job("top-n", n=3, enters=0.1),
    "all enter ranks": job("top-n", n=2, enters=1.0, row_number=True),
}


@pytest.mark.parametrize("name", LAWS)
def test_the_rate_model_knows_results_and_rows(name: str) -> None:
    """Results and rows at the end are means of runs, within four standard errors."""
    given = LAWS[name]
    found = [ran(given, horizon_s=8.0, seed=seed) for seed in range(7)]
    scenario = Scenario.of(given, RunSettings(horizon_s=8.0))
    assert not RateModel().blind_to(scenario)
    said = RateModel(horizon_s=8.0).predict(scenario, [given.plan])["throughput_per_s"][0]
    sent = np.array([each.sent / 8.0 for _, each, _ in found])
    assert abs(sent.mean() - said) < 4.0 * sent.std(ddof=1) / np.sqrt(7) + 1e-3 * said
    rows = np.array([len(left) for *_, left in found])
    operator: Any = given.query.operator("op")
    rates = tuple(np.array([law.mean_rate_per_s]) for _, law in sorted(given.workload.arrivals.items()))
    flow = operator.through(rates, [np.full(1, np.inf)] * len(rates), Mixing(horizon_s=8.0))
    assert abs(rows.mean() - flow.window_records[0]) < 4.0 * max(rows.std(ddof=1), 0.5) / np.sqrt(7)


@pytest.mark.parametrize("ttl_s", [None, 1.2])
@pytest.mark.parametrize("events", EVENTS)
def test_rows_of_keys_that_have_gone_stay_until_they_expire(events: str, ttl_s: float | None) -> None:
    """Lives of keys end, in which rows are found; rows themselves stay as they would, whatever happens to subtasks."""
    given = job("regular-join", ttl_s=ttl_s, keys=9, key_records=4)
    _, found, left = ran(given, *EVENTS[events])
    rows = [(each.side, each.key, each.came_s) for each in found.order]
    assert left == sorted(row for row in rows if ttl_s is None or row[2] + ttl_s > END_S)
    assert 0 < found.sent < ran(job("regular-join", ttl_s=ttl_s, keys=9), *EVENTS[events])[1].sent


def test_the_law_of_keys_that_go_lies_between_its_limits() -> None:
    """A key that has one record meets nobody; one that has a billion stays. Twice the load gives twice the results of
    keys that go, once they have gone, and four times those of keys that stay."""
    never, ever, stays = (
        job("regular-join", key_records=given, type="full").query.operator("op") for given in (1.0, 1e9, None)
    )
    rates = np.array([30.0]), np.array([20.0])
    assert never.sent(rates, 50.0).pairs[0] == 0.0 and never.sent(rates, 50.0).alone[0] == pytest.approx(50.0)
    for one, other in zip(ever.sent(rates, 50.0), stays.sent(rates, 50.0), strict=True):
        assert one[0] == pytest.approx(other[0], rel=1e-6)
    goes = job("regular-join", key_records=6).query.operator("op")
    for operator, factor in ((goes, 2.0), (stays, 4.0)):
        once, twice = (operator.sent((more * rates[0], more * rates[1]), 3600.0).pairs[0] for more in (1.0, 2.0))
        assert twice / once == pytest.approx(factor, rel=0.02)


@pytest.mark.parametrize(("kind", "more"), [("regular-join", {}), ("top-n", {"n": 3}), ("over-aggregate", {"rows": 3})])
def test_rows_have_the_size_that_is_given(kind: str, more: dict[str, Any]) -> None:
    """Twice as large rows make checkpoints twice as large, also by rates."""
    sizes, said = [], []
    for size in (35.0, 70.0):
        given = job(kind, row_bytes=size, **more)
        scenario = Scenario.of(given, RunSettings(horizon_s=4.0))
        run = simulate(scenario.model_copy(update={"checkpoints": Checkpoints(interval_s=1.5)}))
        sizes.append([each["bytes"] for each in run.event_rows if each["kind"] == "checkpoint"][-1])
        arrays = JobArrays(compiled(given))
        (held,) = (each for o, each in arrays.accumulators.items() if arrays.names[o] == "op")
        said.append(held)
    assert sizes[1] == pytest.approx(2.0 * sizes[0]) and sizes[0] > 0.0
    assert said == [35.0, 70.0]


@pytest.mark.parametrize("ttl_s", [None, 5.0])
def test_a_join_that_never_forgets_is_told_with_how_its_state_grows(ttl_s: float | None) -> None:
    """Of 50 records a second each is a row, for as long as the job runs."""
    run = simulated(job("regular-join", ttl_s=ttl_s), horizon_s=60.0, period_s=2.0)
    told = [line for line in run.warnings if "for ever" in line]
    assert len(told) == (ttl_s is None)
    for line in told:
        per_record = sum(row["stateBytes"] for row in run.operator_rows if row["end_s"] == 60.0) / (50 * 60)
        per_day = float(line.partition("grows by ")[2].partition(" MB")[0].replace(",", ""))
        assert per_day == pytest.approx(50 * per_record * 86_400 / 1e6, rel=0.1) and "ttl_s" in line


def test_what_is_not_seen_is_said() -> None:
    (words,) = RateModel().blind_to(Scenario.of(job("top-n", n=3, ttl_s=5)))
    assert words == "that rows of op expire one by one, so that others enter"


@pytest.mark.parametrize(
    ("kind", "more"), [("top-n", {"n": 3}), ("keyed-state", {}), ("deduplicate", {"keep": "last"})]
)
def test_without_a_number_of_key_groups_there_are_as_many_as_by_default_in_flink(kind: str, more: Any) -> None:
    """Runs and predictions are those of 128 key groups; a single key has one, and records come by key either way."""
    said, unsaid = (job(kind, key_groups=given, **more) for given in (128, None))
    runs = [simulated(each, horizon_s=4.0).operator_rows for each in (said, unsaid)]
    assert runs[0] == runs[1] and sum(row["numRecordsIn"] for row in runs[0] if row["operator"] == "op") > 500
    answers = [RateModel().predict(Scenario.of(each), [each.plan]) for each in (said, unsaid)]
    assert str(answers[0]) == str(answers[1])
    with pytest.raises(BadInput, match="1 key groups for 2 subtasks"):
        job(kind, keys=1, key_groups=None, **more)


def test_mistakes_get_a_line() -> None:
    for kind, more, words in (
        ("over-aggregate", {}, "'op' has neither rows nor range_s; give one of them"),
        ("over-aggregate", {"rows": 2, "range_s": 1}, "both rows and range_s"),
        ("top-n", {"n": 0}, "n"),
    ):
        with pytest.raises(BadInput, match=words):
            job(kind, **more)
    with pytest.raises(BadInput, match="joins 'orders' with 'prices', but its inputs are orders, rates"):
        job("regular-join", right="prices")


def changing(**top: Any) -> Deployment:
    """Job source -> counts of 40 products -> the highest 3 of 4 products of each of 10 categories -> sink."""
    counts = {"kind": "group-aggregate", "name": "counts", "keys": 40, "key_groups": 40, "changelog": "upsert"}
    best = {"kind": "top-n", "name": "top", "n": 3, "keys": 10, "key_groups": 10} | top
    return chain([counts, best], RATE)


def changes_by_force(orders: int) -> int:
    """Results of these highest 3: an order changes a listed row, or lets its product in, by two records each."""
    rng, sent, sold = np.random.default_rng(0), 0, np.zeros((10, 4), int)
    for category, product in zip(rng.integers(10, size=orders), rng.integers(4, size=orders), strict=True):
        before = set(np.argsort(-sold[category], kind="stable")[:3])
        sold[category, product] += 1
        sent += 2 * (product in before or product in np.argsort(-sold[category], kind="stable")[:3])
    return sent


def test_the_highest_of_rows_that_change_need_to_know_how_often_they_do() -> None:
    """Without `enters` far too little leaves, which is told with the remedy; with it as much as by brute force."""
    orders = 4000
    share = changes_by_force(orders) / orders / 2.0
    told, right = (simulated(changing(**more), horizon_s=orders / RATE) for more in ({}, {"enters": share}))
    assert told.metrics.records_out < orders / 10
    assert any(line.startswith("top: it takes each change of a row that 'counts' sends") for line in told.warnings)
    assert not any("takes each change" in line for line in right.warnings)
    out, came = (sum(row[key] for row in right.operator_rows if row["operator"] == "top") for key in COUNTED)
    assert abs(out - 2.0 * share * came) < 4.0 * np.sqrt(4.0 * share * (1.0 - share) * came) + 60  # lists fill first


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        ("group-aggregate", "deduplicate", True),
        ("group-aggregate", "over-aggregate", True),
        ("group-aggregate", "aggregate", True),
        ("group-aggregate", "group-aggregate", False),
        ("over-aggregate", "deduplicate", False),
        ("deduplicate", "over-aggregate", True),
    ],
)
def test_who_takes_changes_for_new_rows_is_told(first: str, second: str, told: bool) -> None:
    more: dict[str, dict[str, Any]] = {
        "group-aggregate": {"keys": 9, "key_groups": 9},
        "deduplicate": {"keep": "last", "keys": 9, "key_groups": 9},
        "over-aggregate": {"rows": 2, "keys": 9, "key_groups": 9},
        "aggregate": {"window": {"policy": "time", "size_s": 1}, "group_by": "int", "groups": 9},
    }
    passing = {"kind": "map", "name": "between"}
    made = [{"kind": kind, "name": name, **more[kind]} for kind, name in ((first, "a"), (second, "b"))]
    run = simulated(chain([made[0], passing, made[1]], 20.0), horizon_s=3.0)
    assert any(line.startswith("b: it takes each change of a row that 'a' sends") for line in run.warnings) == told
