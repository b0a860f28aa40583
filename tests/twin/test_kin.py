"""Copies of a record that meet have its key: matches and groups by arithmetic."""

from __future__ import annotations

from itertools import product
from time import process_time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.twin.worlds import deployment, simulated, sink, source
from twin.deployment import Deployment
from twin.events import Failure
from twin.kin import Kin, kin, passes
from twin.profiles import STORM
from twin.rates.model import RateModel
from twin.scenario import RunSettings, Scenario

PER_S, KEYS = 100.0, 500
PASS = {"kind": "map", "service_time_s": 0.0}
MEETING = {"kind": "interval-join", "left": "a", "right": "b", "lower_s": -1.0, "upper_s": 1.0, "keys": KEYS}
MATCHING = {"kind": "join", "window": {"policy": "time", "size_s": 1.0}, "selectivity": 1.0 / KEYS}
COUNTING = {"kind": "aggregate", "window": {"policy": "time", "size_s": 1.0}, "group_by": "int", "groups": KEYS}
FREE = STORM.model_copy(update={"result_us": 0.0, "scan_us": 0.0, "channel_records": 10**6}).model_dump(mode="json")


def job(
    at: dict[str, Any], b: dict[str, Any], parallelism: int = 1, before: dict[str, Any] | None = None
) -> Deployment:
    """Job of one source, whose records come to an operator by `a` and by `b`."""
    first = [before | {"name": "first"}] if before else []
    start = "first" if before else "source"
    operators = [source(), *first, PASS | {"name": "a"}, PASS | b | {"name": "b"}, at | {"name": "at"}, sink()]
    operators[-2] |= {"service_time_s": 0.0}
    streams = [(start, "a"), (start, "b"), ("a", "at"), ("b", "at"), ("at", "sink")]
    streams = [("source", "first"), *streams] if before else streams
    return deployment(operators, streams, {"source": PER_S}, placement={"at": {"h": parallelism}}, engine=FREE)


def close(made: Deployment, expected: float, seeds: int = 8) -> None:
    """Checks results a second within four standard errors."""
    runs = [simulated(made, horizon_s=8.0, warmup_s=2.0, seed=seed).metrics for seed in range(seeds)]
    found = np.array([run.throughput_per_s for run in runs])
    assert abs(found.mean() - expected) < 4 * found.std(ddof=1) / np.sqrt(seeds), (found.mean(), expected)


def said(made: Deployment) -> float:
    """Results a second of the rate model in such a run."""
    job = Scenario.of(made, RunSettings(horizon_s=8.0, warmup_s=2.0))
    return float(RateModel().predict(job, [job.plan])["throughput_per_s"][0])


WHERE = [
    (MEETING, 2.0),
    (MEETING | {"key_groups": 8}, 2.0),
    (MEETING | {"key_groups": 8, "time": "event"}, 2.0),
    (MATCHING, 1.0),
    (MATCHING | {"key_groups": 8}, 1.0),
]


@pytest.mark.parametrize(("at", "span_s"), WHERE)
@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_record_meets_its_own_copy(at: dict[str, Any], span_s: float, parallelism: int) -> None:
    """Each record matches itself, and others by chance; so do those that a filter lets through on one way."""
    for share in (1.0, 0.5):
        way = {"kind": "filter", "selectivity": share}
        made = job(at, way, parallelism)
        expected = share * (PER_S + PER_S**2 * span_s / KEYS)
        close(made, expected)
        assert said(made) == pytest.approx(expected, rel=5e-3)  # a record is not its own copy by chance, too
        assert not any("same key" in each for each in RateModel().blind_to(Scenario.of(made)))


@pytest.mark.parametrize(
    ("way", "before", "expected"),
    [
        ({"kind": "map", "selectivity": 2.0}, None, 2 * PER_S**2 * 2.0 / KEYS),  # other records, with keys of their own
        ({"kind": "filter", "selectivity": 1.0}, {"kind": "map", "selectivity": 2.0, "service_time_s": 0.0}, 360.0),
        (
            {"kind": "map"},
            {"kind": "router", "service_time_s": 0.0, "shares": {"a": 0.5, "b": 0.5}},
            (PER_S / 2) ** 2 * 2.0 / KEYS,
        ),
    ],
)
def test_copies_are_of_what_made_the_record(way: dict[str, Any], before: Any, expected: float) -> None:
    """A flat map makes records, of which each copy has one key; a record that goes one way of two has no copy.

    Of 200 records a second, each meets its copy, and 200 * 200 * 2 / 500 pairs meet by chance.
    """
    made = job(MEETING, way, before=before)
    close(made, expected)
    assert said(made) == pytest.approx(expected, rel=5e-3)
    assert bool(kin(made.query, made.plan).meet) == (expected == 360.0)


@pytest.mark.parametrize(("parallelism", "groups"), [(1, {}), (2, {}), (2, {"key_groups": 20})])
def test_copies_are_in_one_group(parallelism: int, groups: dict[str, int]) -> None:
    """Of 100 records a second, by two ways, there are as many groups in a window as without copies."""
    made = job(COUNTING | groups, {}, parallelism)
    close(made, KEYS * -np.expm1(-PER_S / KEYS))
    assert any("same key" in each for each in RateModel().blind_to(Scenario.of(made)))


def test_rates_count_copies_of_routers_that_send_a_record_several_ways() -> None:
    """Of 100 records a second, a router sends 0.9 to one side and 0.6 to the other, each by itself: 54 go both ways."""
    at = MEETING | {"keys": 10**8}
    made = job(at, {}, before={"kind": "router", "service_time_s": 0.0, "shares": {"a": 0.9, "b": 0.6}})
    assert said(made) == pytest.approx(PER_S * 0.9 * 0.6, rel=5e-3)
    close(made, said(made))


def test_rates_count_copies_that_met_before() -> None:
    """A record that comes by two ways and is sent on by two others has four pairs of copies."""
    operators = [
        source(),
        *(PASS | {"name": name} for name in "abucd"),
        MEETING | {"name": "at", "keys": 10**8},
        sink(),
    ]
    operators[-2] |= {"left": "c", "right": "d", "service_time_s": 0.0}
    streams = [("source", "a"), ("source", "b"), ("a", "u"), ("b", "u"), ("u", "c"), ("u", "d")]
    made = deployment(operators, [*streams, ("c", "at"), ("d", "at"), ("at", "sink")], {"source": PER_S}, engine=FREE)
    assert said(made) == pytest.approx(4 * PER_S, rel=5e-3)
    close(made, said(made))


@pytest.mark.parametrize("kind", ["join", "interval-join", "regular-join"])
def test_rates_count_copies_wherever_they_meet(kind: str) -> None:
    """Copies come by two operators of which one has passed a union, another has been parted by a router that sends a
    record one way, and a third has been made anew: matches of runs are within four standard errors of the rate model's.
    """
    sides = {"left": "a", "right": "b", "keys": 10**6}
    at = {
        "join": {"window": {"policy": "time", "size_s": 0.5, "slide_s": 0.25}, "selectivity": 1e-6},
        "interval-join": sides | {"lower_s": -0.2, "upper_s": 0.2},
        "regular-join": sides | {"ttl_s": 2.0},
    }[kind] | {"kind": kind, "name": "at", "service_time_s": 0.0}
    operators = [
        source(),
        source("other"),
        {"kind": "router", "name": "parts", "shares": {"few": 0.4, "a": 0.5}, "service_time_s": 0.0},
        {"kind": "filter", "name": "few", "selectivity": 0.5, "service_time_s": 0.0},
        PASS | {"name": "a"},
        PASS | {"name": "new", "selectivity": 1.5},
        PASS | {"name": "b", "selectivity": 0.8},
        at,
        sink(),
    ]
    streams = [("source", "parts"), ("parts", "few"), ("parts", "a"), ("few", "a"), ("few", "b"), ("other", "a")]
    streams += [("other", "new"), ("new", "b"), ("a", "at"), ("b", "at"), ("at", "sink")]
    made = deployment(operators, streams, {"source": PER_S, "other": PER_S}, engine=FREE)
    copies = PER_S * 0.4 * 0.5 * 0.8  # of what `few` lets through; `new` makes other records
    assert said(made) == pytest.approx(copies * (2.0 if kind == "join" else 1.0), rel=0.05)
    close(made, said(made))


@pytest.mark.parametrize("groups", [{}, {"key_groups": 8}])
def test_copies_have_one_key_after_a_failure(groups: dict[str, int]) -> None:
    """Of so many keys that no others match, each record meets its copy once, also if both are read again."""
    down = Failure(at_s=4.3, host="h", recover_after_s=0.1)
    made = job(MEETING | groups | {"keys": 10**8}, {})
    run = simulated(made, down, horizon_s=8.0, warmup_s=0.0, checkpoint_interval_s=2.0)
    assert run.duplicates > 0 and run.metrics.records_out == run.metrics.records_in


def test_other_jobs_are_as_before() -> None:
    """Where no copies meet, no lots are drawn."""
    lone = deployment(
        [source("a"), source("b"), MEETING | {"name": "at", "service_time_s": 0.0}, sink()],
        [("a", "at"), ("b", "at"), ("at", "sink")],
        {"a": PER_S, "b": PER_S},
    )
    assert kin(lone.query, lone.plan) == (frozenset(), frozenset())
    assert not any("same key" in each for each in RateModel().blind_to(Scenario.of(lone, RunSettings())))


def ways_by_hand(made: Deployment, maker: str, end: str, choice: dict[str, str]) -> int:
    """Number of copies of a record of `maker` that come to `end`, if routers send it where `choice` says."""
    query = made.query
    if maker == end:
        return 1
    found = 0
    for stream in query.outputs(maker):
        goes = choice.get(maker, stream.consumer) == stream.consumer
        if goes and (stream.consumer == end or passes(query.operator(stream.consumer))):
            copied = stream.partitioning == "broadcast" and made.plan.parallelism(stream.consumer) > 1
            found += (2 if copied else 1) * ways_by_hand(made, stream.consumer, end, choice)
    return found


@st.composite
def networks(draw: st.DrawFn) -> Deployment:
    """Random jobs: what sends to several may be a router, what gets from several keyed state, and others make records
    or are sent copies."""
    count = draw(st.integers(4, 8))
    producers = [draw(st.sets(st.integers(max(0, o - 3), o - 1), min_size=1, max_size=2)) for o in range(1, count)]
    operators, how, placement = [source("o0")], dict[str, str | None](), dict[str, Any]()
    streams = [(f"o{p}", f"o{o}") for o in range(1, count) for p in sorted(producers[o - 1])]
    streams += [(name, "sink") for name in sorted({f"o{p}" for p in range(count)} - {start for start, _ in streams})]
    for name in (f"o{o}" for o in range(1, count)):
        sent_to, got = ([pair for pair in streams if pair[end] == name] for end in (0, 1))
        kinds = ["map", *["router"] * 2 * (len(sent_to) > 1), *["state"] * 2 * (len(got) > 1)]
        kind = draw(st.sampled_from([*kinds, "flat", "copied"] if len(kinds) == 1 else kinds))
        made: dict[str, Any] = {"kind": "map", "selectivity": 2.0 if kind == "flat" else 1.0}
        if kind == "router":
            made = {"kind": "router", "shares": {end: 1.0 / len(sent_to) for _, end in sent_to}}
        elif kind == "state":
            made, how[name] = {"kind": "keyed-state", "key_groups": 4, "keys": 40}, "hash"
        elif kind == "copied":
            how[name], placement[name] = "broadcast", {"h": 2}
        operators.append(made | {"name": name})
    return deployment([*operators, sink()], streams, {"o0": 1.0}, placement=placement, partitioning=how)


@settings(max_examples=300)
@given(networks())
def test_copies_come_by_ways_that_one_record_can_go(made: Deployment) -> None:
    """Copies meet where some choice of all routers lets two ways from a maker end: all choices are tried."""
    query = made.query
    routers = [each for each in query.operators if each.kind == "router"]
    choices = [
        dict(zip([each.name for each in routers], chosen, strict=True))
        for chosen in product(*([s.consumer for s in query.outputs(each.name)] for each in routers))
    ]
    makers = [each.name for each in query.operators if not passes(each)]
    twice = {
        (maker, each.name)
        for maker, each in product(makers, query.operators)
        if each.keyed and any(ways_by_hand(made, maker, each.name, choice) > 1 for choice in choices)
    }
    expected = Kin(frozenset(name for _, name in twice), frozenset(maker for maker, _ in twice))
    assert kin(query, made.plan) == expected


def test_many_routers_whose_ways_meet_again_take_no_time() -> None:
    """The number of ways is the product of those of 40 routers, and none is looked at by itself."""
    operators, streams, before = [source()], list[tuple[str, str]](), "source"
    for number in range(40):
        router, ways = f"r{number:02}", (f"a{number:02}", f"b{number:02}")
        operators += [{"kind": "router", "name": router, "shares": dict.fromkeys(ways, 0.5)}]
        operators += [PASS | {"name": way} for way in ways] + [PASS | {"name": f"u{number:02}"}]
        streams += [(before, router), *((router, way) for way in ways), *((way, f"u{number:02}") for way in ways)]
        before = f"u{number:02}"
    made = deployment([*operators, sink()], [*streams, (before, "sink")], {"source": 1.0})
    began_s = process_time()
    assert kin(made.query, made.plan) == (frozenset(), frozenset())
    assert process_time() - began_s < 20.0
