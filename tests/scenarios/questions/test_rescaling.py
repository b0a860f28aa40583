"""`twin dry-run --rescale`: what changes together does, by laws and arithmetic, and chains that come apart are told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scenarios.executing import Lines, Processes
from scenarios.questions.bench import Bench
from scenarios.questions.dry_run import ChangeOptions, DryRunAnswer, Planned, dry_run, finer, look, planned
from streamtwin.answers.dry_run import told
from tests.scenarios.questions.jobs import host
from twin.chaining import fused
from twin.errors import BadInput
from twin.scenario import Scenario
from twin.simulation import simulate
from twin.spec import parse

RATE_PER_S = 400.0
REDEPLOY_S = 2.0
FORWARD = {"partitioning": "forward"}


def job(parallelism: int = 1, *, ids: bool = False, changed: dict[str, dict[str, Any]] | None = None) -> Scenario:
    """Job of a SQL plan: a source with a filter behind it, the last record of a key, and a sink that Flink chains to
    that, while it runs apart here. changed: keys of operators."""
    operators = [
        {"name": "bids", "kind": "source", "service_time_s": 2e-4, "record_bytes": 100},
        {"name": "calc", "kind": "filter", "selectivity": 0.5, "service_time_s": 4e-4, "record_bytes": 100},
        {"name": "last", "kind": "deduplicate", "keep": "last", "changelog": "upsert", "keys": 1000},
        {"name": "results", "kind": "sink", "service_time_s": 1e-4},
    ]
    streams = [
        {"producer": "bids", "consumer": "calc", **FORWARD},
        {"producer": "calc", "consumer": "last", "partitioning": "hash"},
        {"producer": "last", "consumer": "results", **FORWARD},
    ]
    data = {
        "name": "job",
        "query": {
            "operators": [{**each, **(changed or {}).get(str(each["name"]), {})} for each in operators],
            "streams": streams,
        },
        "cluster": {"hosts": [host("tm-1"), host("tm-2")]},
        "plan": {
            "placement": {str(each["name"]): ["tm-1"] * parallelism for each in operators},
            "fused": [["bids", "calc"]],
        },
        "workload": {"arrivals": {"bids": {"law": "constant", "rate_per_s": RATE_PER_S}}},
        "engine": {"profile": "flink", "service_scv": 0, "rescaling": _restart(ids)},
        "run": {"horizon_s": 24, "warmup_s": 2, "period_s": 1},
    }
    return parse(Scenario, data)


def _restart(ids: bool) -> dict[str, Any]:
    return {"how": "restart", "redeploy_s": REDEPLOY_S, "generated_ids": ids}


def plan(given: Scenario, *rescale: str) -> Planned:
    return planned(finer(given), ChangeOptions(rescale=rescale, at_s=8))


def tried(given: Scenario, *rescale: str) -> DryRunAnswer:
    change = plan(given, *rescale)
    with Bench(Processes(1), of=look(change.at_s)) as bench:
        return dry_run(bench, finer(given), change, 2, 1, Lines(lambda _text: None))


def scaled(change: Planned) -> dict[str, int]:
    """Subtasks by operator, of what the change scales."""
    return {event.operator: len(event.placement) for event in change.scenario.events if event.kind == "scale"}


def refusal(given: Scenario, *rescale: str) -> str:
    with pytest.raises(BadInput) as caught:
        plan(given, *rescale)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_a_job_is_rescaled_as_its_operators_are_one_by_one() -> None:
    """What is chained, or tied by a forward stream, goes along, so both ways give the same run."""
    whole, single = plan(job(), "parallelism=2"), plan(job(), "bids=2", "last=2")
    assert scaled(whole) == {"bids": 2, "last": 2, "results": 2}
    assert whole.scenario == single.scenario
    every = plan(job(), *(f"{each.name}=2" for each in job().query.operators))
    assert every.scenario == whole.scenario


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 3), (3, 1)])
def test_a_rescaled_job_loses_and_doubles_nothing(before: int, after: int) -> None:
    """Half of the records pass the filter, each gives a result, and subtasks keep their pairs: what one sends the other
    of the same number gets. Rows stay those of the keys that were seen."""
    change, calm = plan(job(before), f"parallelism={after}"), job(before)
    run, other = simulate(change.scenario), simulate(calm)
    assert run.duplicates == 0
    came = sum(row["numRecordsIn"] for row in run.operator_rows if row["operator"] == "results")
    assert came == pytest.approx(RATE_PER_S * 24 / 2, abs=4 * (RATE_PER_S * 24 / 4) ** 0.5)
    later = [row for row in run.subtask_rows if row["start_s"] >= 16]
    sent = {row["subtask"]: 0.0 for row in later if row["operator"] == "last"}
    got = dict(sent)
    for row in later:
        if row["operator"] == "last":
            sent[row["subtask"]] += row["numRecordsOut"]
        elif row["operator"] == "results":
            got[row["subtask"]] += row["numRecordsIn"]
    assert len(sent) == after and min(sent.values()) > 0
    waits = RATE_PER_S / 2 * 1.1 * (calm.engine.flush_s or 0.0)
    assert got == pytest.approx(sent, abs=waits), "what waits for a flush at both ends"
    kept = [[row["stateBytes"] for row in each.operator_rows if row["operator"] == "last"] for each in (run, other)]
    assert kept[0][-1] == pytest.approx(kept[1][-1], rel=0.01)


def timed(parallelism: int) -> Scenario:
    """Job in which forward streams lead to what passes watermarks, before windows of a second over event time."""
    given = job(parallelism).model_dump(mode="json")
    window = {"policy": "time", "size_s": 1, "time": "event"}
    operators = {each["name"]: each for each in given["query"]["operators"]}
    operators["bids"] |= {"disorder_s": 0.2, "slack_s": 0.2}
    operators["last"] = {"name": "last", "kind": "aggregate", "window": window, "group_by": "int", "groups": 10}
    given["query"]["operators"] = [*operators.values()]
    given["plan"]["fused"] = []
    return parse(Scenario, given)


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 3), (3, 1), (4, 2)])
def test_watermarks_find_their_way_through_forward_streams_again(before: int, after: int) -> None:
    """Ten results of each second, whatever pairs there are, and no record is late: no window closes too early, as a
    subtask would let it that knows the watermark of the producer that it had, or never, as if it waited for that."""
    change, calm = simulate(plan(timed(before), f"parallelism={after}").scenario), simulate(timed(before))
    rows = [[row for row in run.operator_rows if row["operator"] == "last"] for run in (change, calm)]
    results, late = (
        [sum(row[of] for row in each) for each in rows] for of in ("numRecordsOut", "numLateRecordsDropped")
    )
    assert results[0] == results[1] >= 10 * 23, "of 23 seconds, and of what was born before the first one"
    assert late == [0, 0] and change.duplicates == 0


def test_a_rescaled_job_stops_once_and_catches_up_as_arithmetic_says() -> None:
    """All changes share a restart of 2 s. Then two sources of 600 us a record have 3,333 a second for 400."""
    answer = tried(job(), "parallelism=2")
    known = {name: each.mean for name, each in answer.measures.items()}
    state_s = 1000 * 100 * 8 / 800e6  # written and read
    assert known["pause_s"] == pytest.approx(REDEPLOY_S + 2 * state_s, abs=0.05)
    assert known["lag"] == pytest.approx(RATE_PER_S * known["pause_s"], rel=0.05)
    assert known["catch_up_s"] == pytest.approx(known["pause_s"] * (1 + RATE_PER_S / (2 / 6e-4 - RATE_PER_S)), abs=0.1)
    assert known["twice"] == known["lost"] == 0
    assert answer.change == "rescale parallelism=2 at 8 s"


def test_a_chain_that_comes_apart_is_told_with_what_it_costs() -> None:
    """The source keeps one subtask on tm-1, and its filter has a second one on tm-2, to which half of the 400 records a
    second of 100 bytes go: 2 x 4 ns a byte."""
    change = plan(job(), "parallelism=2", "bids=1")
    assert scaled(change) == {"calc": 2, "last": 2, "results": 2}
    (note,) = change.notes
    assert "the chain bids -> calc comes apart, as bids has 1 subtask and calc 2" in note
    placed = change.scenario.events[0].placement
    share = placed.count("tm-2") / 2
    assert f"400 records/s go through channels then, of which {share:.0%} to another host" in note
    assert ("cores" in note) is (share > 0)
    assert not fused(change.scenario.query, change.scenario.plan, change.scenario.engine)
    run = simulate(change.scenario)
    read = [row["numRecordsIn"] for row in run.subtask_rows if row["operator"] == "calc" and row["start_s"] >= 16]
    assert len({row["subtask"] for row in run.subtask_rows if row["operator"] == "calc"}) == 2
    assert sum(read) == pytest.approx(RATE_PER_S * 8, rel=0.01)
    assert run.duplicates == 0
    answer = tried(job(), "parallelism=2", "bids=1")
    assert note in answer.warnings and any(note in each for each in told(answer).notes)


def test_no_savepoint_fits_another_chain_where_ids_follow_from_it() -> None:
    """Of SQL without a compiled plan; it works if all that is chained has the job's parallelism."""
    sql = job(ids=True)
    assert not plan(sql, "parallelism=2").notes
    for options, chain in ((("bids=1",), "bids -> calc"), (("results=1",), "a forward stream")):
        message = refusal(sql, "parallelism=2", *options)
        for words in (f"--rescale {options[0]}", chain, "Cannot map checkpoint/savepoint state", "compiled plan"):
            assert words in message
    assert plan(sql.with_set("engine.rescaling.generated_ids", False), "parallelism=2", "bids=1").notes


def test_what_becomes_a_chain_by_a_change_is_told_and_fits_no_savepoint_either() -> None:
    apart = {"bids": ["tm-1"], "calc": ["tm-1"] * 2, "last": ["tm-1"] * 2, "results": ["tm-1"] * 2}
    data = job().model_dump(mode="json")
    data["query"]["streams"][0]["partitioning"] = None
    data["plan"] = {"placement": apart}
    data["engine"]["chaining"] = True
    given = parse(Scenario, data)
    assert plan(given, "calc=1").notes == ("bids and calc are chained from then on, while they stay apart in the run",)
    data["engine"]["rescaling"]["generated_ids"] = True
    assert "Cannot map checkpoint/savepoint state" in refusal(parse(Scenario, data), "calc=1")


def test_what_cannot_change_keeps_its_subtasks_with_its_chain_and_is_told() -> None:
    pinned = job(changed={"bids": {"pinned": True}})
    change = plan(pinned, "parallelism=2")
    assert scaled(change) == {"last": 2, "results": 2}
    assert change.notes == ("bids, calc: 1 as before, as bids is pinned",)
    apart = plan(pinned, "parallelism=2", "calc=2")
    assert scaled(apart) == {"calc": 2, "last": 2, "results": 2}
    whole = {"kind": "aggregate", "window": {"policy": "time", "size_s": 1}}
    data = job().model_dump(mode="json", exclude_none=True)
    data["query"]["operators"][2] = {"name": "last", **whole}
    kept = plan(parse(Scenario, data), "parallelism=2")
    assert scaled(kept) == {"bids": 2}
    assert "last aggregates all records without a key" in kept.notes[0]


def test_operators_with_numbers_of_their_own_keep_them() -> None:
    """The job's parallelism is that of most operators; a source that a program gives another keeps it."""
    data = job(3).model_dump(mode="json")
    data["query"]["streams"][0]["partitioning"] = "rebalance"
    data["plan"] = {"placement": data["plan"]["placement"] | {"bids": ["tm-1"]}}
    given = parse(Scenario, data)
    assert scaled(plan(given, "parallelism=2")) == {"calc": 2, "last": 2, "results": 2}
    assert scaled(plan(given, "parallelism=2", "last=1")) == {"calc": 2, "last": 1, "results": 2}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("parallelism=0",), "give a whole number from 1"),
        (("parallelism=tm-1",), "is a number"),
        (("paralelism=2",), "did you mean 'parallelism'"),
        (("parallelism=1",), "this changes nothing"),
        (("calc=2",), "'calc' runs as one with 'bids' and goes where that goes; name 'bids', or give parallelism=N"),
        (("last=2", "results=3"), "results has as many subtasks as last"),
        (("bids=2", "bids=3"), "bids has a number already"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_a_line(options: tuple[str, ...], words: str) -> None:
    assert words in refusal(job(), *options)


def test_only_a_restart_leads_forward_streams_anew() -> None:
    assert "feeds a forward stream" in refusal(job().with_set("engine.rescaling", "live"), "last=2")
    message = refusal(job(changed={"results": {"pinned": True}}), "last=2")
    assert "'results' is pinned" in message


def test_an_operator_called_parallelism_is_that_operator() -> None:
    named = json.dumps(job().model_dump(mode="json")).replace('"results"', '"parallelism"')
    given = parse(Scenario, json.loads(named))
    assert scaled(plan(given, "parallelism=2")) == {"last": 2, "parallelism": 2}
