"""Kinds of operators of SQL in imports of Flink, and their numbers of keys, from plans and results."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamtwin.connect.importers.flink_chain import keys_that_give, steps_of
from streamtwin.connect.importers.flink_scenario import ImportedJob, scenario_of
from tests.streamtwin.importers.test_flink_sql import imported
from tests.streamtwin.importers.test_flink_versions import joining, vertex


def headed(
    text: str,
    results_per_s: float = 50.0,
    sides: int = 1,
    how: str = "HASH",
    watched_s: tuple[float, float] = (80.0, 100.0),
    so_far: float | None = None,
    ttl: str = "",
    rests: bool = False,
) -> ImportedJob:
    """Import of a SQL job whose vertex with that description takes 100 records/s of each side; if the last one rests,
    nearly all of them of the first one. how: they are shipped. watched_s: when watching began and ended, after the
    vertex's start. so_far: its results until then; None: unknown. ttl: time to live of rows, as Flink has it."""
    whole = joining("Window", results_per_s, sides)
    word = text.partition("(")[0]
    totals = {} if so_far is None else {f"{word}[7].numRecordsOut": so_far}
    chain = steps_of(f"{word}[7]", f"[7]:{text}", {}, totals)
    made = [
        vertex(f"{word}[7]", tuple(f"s{side}" for side in range(sides)), 100.0 * sides, results_per_s, text)
        if each.name == "window"
        else each
        for each in whole.vertices
    ]
    if rests:
        made[0] = replace(made[0], out_per_s=100.0 * sides - 0.5)
        made[sides - 1] = replace(made[sides - 1], out_per_s=0.5)
    index = next(number for number, each in enumerate(made) if each.name == f"{word}[7]")
    inputs = tuple((each, how) for each, _ in made[index].inputs)
    began_s, ended_s = watched_s
    lived = {"lived_s": ended_s, "passed_s": ended_s - began_s, "taken": 100.0 * ended_s * sides}
    made[index] = replace(made[index], chain=chain, inputs=inputs, **lived)
    made[-1] = replace(made[-1], inputs=((f"{word}[7]", "REBALANCE"),))
    settings = {"table.exec.state.ttl": ttl} if ttl else {}
    return scenario_of(replace(whole, vertices=tuple(made), settings=settings), {})


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        (
            "Deduplicate(keep=[FirstRow], key=[a], order=[PROCTIME])",
            "deduplicate",
            {"kind": "deduplicate", "keep": "first", "time": "processing"},
        ),
        ("ChangelogNormalize(key=[a])", "changelog-normalize", {"kind": "deduplicate", "keep": "last"}),
        ("GroupAggregate(groupBy=[a], select=[a, COUNT(*)])", "group-aggregate", {"kind": "group-aggregate"}),
        (
            "Rank(rankType=[ROW_NUMBER], rankRange=[rankStart=1, rankEnd=10], partitionBy=[a], select=[a, p, w0$o0])",
            "rank",
            {"kind": "top-n", "n": 10, "row_number": True},
        ),
        (
            "OverAggregate(partitionBy=[a], orderBy=[t ASC], window=[ ROWS BETWEEN 10 PRECEDING AND CURRENT ROW])",
            "over-aggregate",
            {"kind": "over-aggregate", "rows": 10},
        ),
        (
            "OverAggregate(partitionBy=[a], orderBy=[t ASC], window=[ RANG BETWEEN 60000 PRECEDING AND CURRENT ROW])",
            "over-aggregate",
            {"kind": "over-aggregate", "range_s": 60.0},
        ),
        (
            "GlobalWindowAggregate(groupBy=[a], window=[CUMULATE(slice_end=[$e], max_size=[1 d], step=[10 min])])",
            "global-window-aggregate",
            {"kind": "aggregate", "window": {"size_s": 86400.0, "slide_s": 600.0}},
        ),
        (
            "WindowRank(window=[TUMBLE(win_start=[s], win_end=[e], size=[10 s])], partitionBy=[a])",
            "window-rank",
            {"kind": "aggregate", "window": {"size_s": 10.0}},
        ),
        (
            "GroupWindowAggregate(groupBy=[a], window=[SessionGroupWindow('w$, ts, 5000)])",
            "group-window-aggregate",
            {"kind": "session", "gap_s": 5.0},
        ),
        (
            "GlobalWindowAggregate(window=[HOP(win_end=[$w], size=[10 s], slide=[2 s])], select=[MAX(m)])",
            "global-window-aggregate",
            {"kind": "aggregate", "window": {"size_s": 2.0}},
        ),
        ("SortLimit(orderBy=[p DESC], offset=[0], fetch=[10], strategy=[AppendFastStrategy])", "sort-limit", {"n": 10}),
    ],
)
def test_the_first_operator_of_a_chain_says_its_kind(text: str, name: str, expected: dict[str, Any]) -> None:
    operator = headed(text).scenario.query.operator(name)
    for key, value in expected.items():
        own = getattr(operator, key)
        if isinstance(value, dict):
            assert {each: getattr(own, each) for each in value} == value
        else:
            assert own == value


def test_a_local_phase_is_a_filter() -> None:
    """It groups what comes to its subtask, and keeps no keys."""
    found = headed("LocalGroupAggregate(groupBy=[a])", how="FORWARD")
    operator = found.scenario.query.operator("local-group-aggregate")
    assert (operator.kind, operator.selectivity) == ("filter", 0.5)
    assert [each.partitioning for each in found.scenario.query.inputs("local-group-aggregate")] == ["forward"]


@pytest.mark.parametrize("how", ["FORWARD", "REBALANCE"])
@pytest.mark.parametrize(
    "text",
    [
        "Rank(rankRange=[rankStart=1, rankEnd=10], partitionBy=[a], orderBy=[p DESC])",
        "GlobalWindowAggregate(groupBy=[a], window=[TUMBLE(slice_end=[$e], size=[10 s])])",
        "Deduplicate(keep=[FirstRow], key=[a], order=[PROCTIME])",
        "GroupAggregate(groupBy=[a, b], select=[a, COUNT(*)])",
    ],
)
def test_what_works_by_key_does_so_however_its_records_are_shipped(text: str, how: str) -> None:
    hashed, other = (headed(text, how=shipped_by) for shipped_by in ("HASH", how))
    assert other.scenario == hashed.scenario
    (shown,) = {note for note in other.notes if note not in hashed.notes}
    assert f"it ships by {how}, and its consumer keeps keys; taken as hash" in shown


def test_without_keys_there_is_one() -> None:
    query = headed(
        "Rank(rankRange=[rankStart=1, rankEnd=10], partitionBy=[], orderBy=[p])", how="GLOBAL"
    ).scenario.query
    assert (query.operator("rank").keys, query.operator("rank").key_groups) == (1, 1)


@pytest.mark.parametrize(
    ("text", "kept", "first"),
    [
        ("SortLimit(orderBy=[p DESC], offset=[5], fetch=[10])", 15, 6),
        ("Limit(offset=[1], fetch=[2])", 3, 2),
        ("Rank(rankRange=[rankStart=3, rankEnd=10], partitionBy=[a], orderBy=[p])", 10, 3),
        ("Rank(rankRange=[rankStart=1, rankEnd=10], partitionBy=[a], orderBy=[p])", 10, 1),
    ],
)
def test_rows_before_the_first_result_are_kept_and_told(text: str, kept: int, first: int) -> None:
    found = headed(text)
    (operator,) = (each for each in found.scenario.query.operators if each.kind == "top-n")
    assert operator.n == kept
    told = [note for note in found.notes if f"it keeps {kept} rows, of which those from the {first}. on" in note]
    assert len(told) == (first > 1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "Join(joinType=[LeftOuterJoin], where=[(a = b)], select=[a, b], leftInputSpec=[NoUniqueKey])",
            {"kind": "regular-join", "left": "s0", "right": "s1", "type": "left"},
        ),
        (
            "IntervalJoin(windowBounds=[isRowTime=false, leftLowerBound=-600000, leftUpperBound=5000])",
            {"kind": "interval-join", "lower_s": -5.0, "upper_s": 600.0},
        ),
        ("TemporalJoin(joinType=[InnerJoin], where=[(a = b)])", {"kind": "temporal-join", "side": "s1"}),
        (
            "WindowJoin(leftWindow=[HOP(win_start=[s], win_end=[e], size=[10 s], slide=[2 s])], joinType=[InnerJoin])",
            {"kind": "join"},
        ),
    ],
)
def test_joins_say_their_kind(text: str, expected: dict[str, Any]) -> None:
    found = headed(text, sides=2).scenario.query
    (operator,) = (each for each in found.operators if each.kind == expected["kind"])
    assert {key: getattr(operator, key) for key in expected} == expected


@pytest.mark.parametrize("watched_s", [(80.0, 100.0), (50.0, 250.0)])
@pytest.mark.parametrize("partners", [0.5, 4.0, 30.0])
def test_a_join_whose_records_find_as_many_rows_as_before_has_keys_that_go(
    partners: float, watched_s: tuple[float, float]
) -> None:
    """Each record finds so many rows: with as many records on both sides (m - 1) / 2 of a key of m records. Of keys
    that stay it finds ever more: pairs so far grow with the square of records so far."""
    text, (began_s, ended_s) = "Join(joinType=[InnerJoin], where=[(a = b)])", watched_s
    goes = headed(text, 200.0 * partners, 2, watched_s=watched_s, so_far=200.0 * partners * ended_s)
    (join,) = (each for each in goes.scenario.query.operators if each.kind == "regular-join")
    assert join.key_records == pytest.approx(1.0 + 2.0 * partners, rel=0.01)
    assert join.keys * join.key_records < 200.0 * began_s / 9.0
    pairs_per_s = partners * (ended_s**2 - began_s**2) / (ended_s - began_s)
    stays = headed(text, pairs_per_s, 2, watched_s=watched_s, so_far=partners * ended_s**2)
    (join,) = (each for each in stays.scenario.query.operators if each.kind == "regular-join")
    assert join.key_records is None and join.keys == pytest.approx(100.0 * 100.0 / partners, rel=0.01)


def test_rows_that_expire_and_a_side_that_rests_tell_no_keys_that_go() -> None:
    """Once rows expire, a record finds as many as before whether keys stay or go: they are taken to stay, 2 rate rate
    ttl / keys pairs a second. Of a table that was read before nobody knows how many keys it has, so they are asked for.
    """
    text = "Join(joinType=[InnerJoin], where=[(a = b)])"
    expiring = headed(text, 200.0, 2, so_far=200.0 * 100.0, ttl="10 s")
    (join,) = (each for each in expiring.scenario.query.operators if each.kind == "regular-join")
    assert (join.key_records, join.ttl_s) == (None, 10.0)
    assert join.keys == pytest.approx(2.0 * 100.0 * 100.0 * 10.0 / 200.0, rel=0.01)
    resting = headed(text, 200.0, 2, so_far=200.0 * 100.0, rests=True)
    (join,) = (each for each in resting.scenario.query.operators if each.kind == "regular-join")
    assert join.key_records is None
    assert any("query.operators.join.keys=" in note for note in resting.notes)


WATCHED_S = ((0.0, 100.0), (80.0, 100.0), (50.0, 250.0), (10.0, 11.0))
"""A whole life, as in answers of one moment, and parts of one."""


def mean_over(watched_s: tuple[float, float], law: Callable[[np.ndarray], np.ndarray]) -> float:
    """Mean of a law of the time since the start, over the time that was watched."""
    times_s = np.linspace(*watched_s, 200_001)
    return float(np.trapezoid(law(times_s), times_s)) / (watched_s[1] - watched_s[0])


@pytest.mark.parametrize("watched_s", WATCHED_S)
@pytest.mark.parametrize("keys", [400, 1000, 5000, 40_000])
def test_keys_are_those_that_give_the_results(watched_s: tuple[float, float], keys: int) -> None:
    """Laws of docs/sql-kinds.md, over the time that was watched: t s after the start a record is the first of its key
    with probability exp(-rate t / keys), and a join makes 2 rate rate t / keys pairs a second."""
    firsts = mean_over(watched_s, lambda t: np.exp(-100.0 * t / keys))
    pairs_per_s = mean_over(watched_s, lambda t: 2.0 * 100.0 * 100.0 * t / keys)
    results = {
        "Deduplicate(keep=[FirstRow], key=[a])": (100.0 * firsts, 1),
        "Deduplicate(keep=[LastRow], key=[a])": (100.0 * (2.0 - firsts), 1),
        "GroupAggregate(groupBy=[a], select=[a, COUNT(*)])": (100.0 * (2.0 - firsts), 1),
        "Join(joinType=[InnerJoin], where=[(a = b)])": (pairs_per_s, 2),
    }
    for text, (results_per_s, sides) in results.items():
        if firsts < 0.01 and sides == 1:
            continue  # so few that it sends as if there were none
        found = headed(text, results_per_s, sides, watched_s=watched_s).scenario.query
        (operator,) = (each for each in found.operators if hasattr(each, "keys"))
        assert operator.keys == pytest.approx(keys, rel=1e-3, abs=1), text


@pytest.mark.parametrize(("distinct", "content"), [(1.0, 1000.0), (80.0, 100.0), (99.9, 100.0), (500.0, 3600.0)])
def test_keys_that_give_so_many_distinct_ones(distinct: float, content: float) -> None:
    keys = keys_that_give(distinct, content)
    assert -keys * math.expm1(-content / keys) == pytest.approx(distinct, rel=1e-6)
    assert keys_that_give(content, content) == math.inf


@pytest.mark.parametrize("before", [0.0, 50.0, 5000.0])
def test_keys_that_were_there_before_are_not_told_as_new_ones(before: float) -> None:
    """What `before` records leave for later ones is what all together have, less what these had."""
    for keys in (100.0, 1000.0, 1e5):
        distinct = keys * (math.exp(-before / keys) - math.exp(-(before + 700.0) / keys))
        assert keys_that_give(distinct, 700.0, before) == pytest.approx(keys, rel=1e-6)


def test_state_without_a_bound_is_said(tmp_path: Path) -> None:
    for run, name in (("q18-10000", "deduplicate"), ("q7-10000", "join")):
        (note,) = (each for each in imported(tmp_path / run, run).notes if each.startswith("Flink does not tell"))
        assert f"query.operators.{name}.ttl_s=none" in note and f"query.operators.{name}.keys=" in note
