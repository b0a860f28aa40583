"""Keys that stay together along a stream: traffic between subtasks, savings, and no losses on the way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.optimizers.skewed_jobs import Watching
from tests.twin.checkpointed import hosts
from tests.twin.worlds import chain, deployment, simulated, sink, source, world_of
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.events import Failure, Migration
from twin.rates.model import RateModel
from twin.run import Run
from twin.scenario import RunSettings, Scenario, config_hash
from twin.spec import parse
from twin.world.world import World

WORKERS = ("w0", "w1", "w2", "w3")
BYTES, RATE = 1000.0, 800.0


def job(
    alignment: Any = "one-to-one",
    owners: dict[str, list[int]] | None = None,
    keys: dict[str, Any] | None = None,
    groups: tuple[int, int] = (8, 8),
    middle: dict[str, Any] | None = None,
    **stream: Any,
) -> Deployment:
    """Job source -> m -> n -> sink; m and n have key groups, two a worker; source and sink are elsewhere."""
    hosts = [{"name": "in", "cpu_percent": 400, "ram_mb": 8000, "bandwidth_mbps": 1000, "latency_ms": 1}]
    hosts += [hosts[0] | {"name": name, "cpu_percent": 200} for name in WORKERS]
    keyed = {"kind": "map", "service_time_s": 2e-4, "service_scv": 0, "record_bytes": BYTES}
    operators = [
        {"name": "m", "key_groups": groups[0], **keyed, **(middle or {})},
        {"name": "n", "key_groups": groups[1], **keyed},
    ]
    places = {"source": "in", "sink": "in", "m": list(WORKERS), "n": list(WORKERS)}
    data = chain(operators, {"law": "poisson", "rate_per_s": RATE}, hosts=hosts, placement=places).model_dump(
        mode="json", exclude_none=True
    )
    between = next(each for each in data["query"]["streams"] if each["producer"] == "m")
    between |= {"alignment": alignment, **stream} if alignment else stream
    data["plan"]["key_groups"] = owners or {}
    data["workload"]["keys"] = keys or {}
    return parse(Deployment, data)


def world(deployment: Deployment) -> World:
    return world_of(deployment, RunSettings())


def rows(built: World) -> np.ndarray:
    """Weights of what each subtask of m sends to each of n."""
    return np.array([list(task.ports[0].weights) for task in built.tasks["m"]])


def run(deployment: Deployment, *events: Any, policy: Any = None, **more: Any) -> Run:
    given_ = {"horizon_s": 20.0, "warmup_s": 2.0, "period_s": 2.0} | more
    return simulated(deployment, *events, policy=policy, **given_)


# who sends to whom ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("alignment", "groups", "expected"),
    [
        ("one-to-one", (8, 8), np.eye(8)),
        ("partial-merge", (8, 4), np.repeat(np.eye(4), 2, axis=0)),
        (
            {"pattern": "partial-partitioning", "degree": 3},
            (8, 8),
            sum(np.roll(np.eye(8), step, axis=1) for step in range(3)) / 3,
        ),
        (None, (8, 8), np.full((8, 8), 1 / 8)),
    ],
    ids=["one-to-one", "partial merge", "partial partitioning", "full"],
)
def test_each_pattern_produces_its_matrix(alignment, groups, expected):
    """Each pattern has its matrix of traffic between key groups, as a policy sees it, and between subtasks."""
    watching = Watching()
    run(job(alignment, groups=groups), policy=watching, horizon_s=4.0)
    traffic = watching.seen[0].traffic["m", "n"]
    assert traffic == pytest.approx(expected * traffic.sum() / expected.sum(), rel=0.25)
    assert (traffic > 0).tolist() == (expected > 0).tolist()
    assert traffic.sum() == pytest.approx(watching.seen[0].operators["m"]["numRecordsOut"] / 2.0)
    owner_m, owner_n = (np.arange(count) * 4 // count for count in groups)
    blocks = np.zeros((4, 4))
    np.add.at(blocks, (owner_m[:, None], owner_n[None, :]), expected)
    assert rows(world(job(alignment, groups=groups))) == pytest.approx(blocks / blocks.sum(axis=1, keepdims=True))


def taken_of(groups: list[int], n: int, skew: dict[str, Any] | None = None, **more: Any) -> np.ndarray:
    """Records that each subtask of n took, when all records of m are of some key groups, alike; about n in all."""
    shares = [float(group in groups) for group in range(8)]
    built = world(job(**more, keys={"m": {"shares": shares}, **(skew or {})}))
    built.advance(n / RATE)
    return np.array([task.records_in for task in built.tasks["n"]])


def near(got: np.ndarray, shares: np.ndarray) -> None:
    """Checks counts against shares, within five standard errors."""
    expected = got.sum() * shares
    assert np.all(np.abs(got - expected) <= 5 * np.sqrt(expected))


def test_records_are_dealt_by_the_rows():
    """Each subtask of n gets its share of what each subtask of m sends."""
    more = {"alignment": {"pattern": "one-to-one", "share": 0.6}, "owners": {"n": [0, 1, 2, 3] * 2}}
    dealt = rows(world(job(**more)))
    for subtask, row in enumerate(dealt):
        near(taken_of([2 * subtask, 2 * subtask + 1], 4000, **more), row)
    assert dealt[0] == pytest.approx([0.4, 0.4, 0.1, 0.1])


@pytest.mark.parametrize("share", [1.0, 0.6])
def test_the_key_of_a_record_says_where_it_goes(share: float) -> None:
    """A record goes to a key group of its own pattern or, beside the pattern, to any, by their own weights."""
    pattern = {"pattern": "partial-partitioning", "degree": 2, "share": share}
    skew = {"n": {"zipf": 0.5}} if share < 1.0 else {}
    owners = {"n": [0, 1, 2, 3] * 2}
    own = world(job(pattern, owners, {"m": {"zipf": 1.0}, **skew})).key_groups["n"].own
    expected = (1.0 - share) * own + share * np.isin(np.arange(8), [3, 4]) / 2
    near(taken_of([3], 8000, alignment=pattern, owners=owners, skew=skew), np.bincount(owners["n"], expected))


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_what_the_subtasks_send_sums_to_what_the_others_get(data):
    """Sent and received weights have the same sums, whatever the pattern, the skew and the owners."""
    count = data.draw(st.integers(4, 12))
    heard = data.draw(st.integers(4, count))
    pattern = data.draw(st.sampled_from(["partial-merge", "partial-partitioning"]))
    degree = {"degree": data.draw(st.integers(1, heard))} if pattern == "partial-partitioning" else {}
    owners = {
        name: data.draw(st.lists(st.integers(0, 3), min_size=size, max_size=size))
        for name, size in (("m", count), ("n", heard))
    }
    share = data.draw(st.sampled_from([0.3, 0.99]))
    keys = {name: {"zipf": data.draw(st.sampled_from([0.0, 1.3]))} for name in ("m", "n")}
    built = world(job({"pattern": pattern, "share": share, **degree}, owners, keys, (count, heard)))
    assert rows(built).sum(axis=1) == pytest.approx(np.ones(4))
    assert np.array(built.key_groups["m"].shares()) @ rows(built) == pytest.approx(built.key_groups["n"].shares())


def test_keys_are_as_frequent_as_where_they_come_from():
    skew = {"m": {"zipf": 1.0}}
    built = world(job(keys=skew))
    assert built.key_groups["n"].weights == pytest.approx(built.key_groups["m"].weights)
    half = world(job({"pattern": "one-to-one", "share": 0.5}, keys=skew)).key_groups
    assert half["n"].weights == pytest.approx(0.5 * half["m"].weights + 0.5 / 8)


def test_keys_drift_together_and_sending_costs_follow():
    drifting = {"m": {"zipf": 1.0, "drift_every_s": 5, "drift_share": 1.0}}
    built = world(job({"pattern": "one-to-one", "share": 0.5}, keys=drifting))
    before = built.key_groups["n"].weights.copy()
    built.advance(6)
    after = built.key_groups["n"].weights
    assert after != pytest.approx(before)
    assert after == pytest.approx(0.5 * built.key_groups["m"].weights + 0.5 / 8)
    away = [1.0 - row[k] for k, row in enumerate([task.ports[0].weights for task in built.tasks["m"]])]
    each_s = built.tasks["m"][0].ports[0].costs[1]
    assert [task.ports[0].send_s for task in built.tasks["m"]] == pytest.approx([each_s * share for share in away])


def test_a_count_by_key_sends_a_record_a_value_whatever_the_skew():
    window = {"policy": "time", "size_s": 1, "slide_s": 1}
    middle = {"kind": "aggregate", "group_by": "int", "groups": 16, "window": window}
    built = world(job("one-to-one", keys={"m": {"zipf": 1.0}}, middle=middle))
    assert built.key_groups["n"].weights == pytest.approx(np.full(8, 1 / 8))


# what it saves --------------------------------------------------------------------------------------------------------


def test_what_stays_on_its_host_costs_neither_serialising_nor_the_network():
    """Together, a worker sends only to the sink; apart, each record is serialised and sent twice."""
    apart = [1, 1, 2, 2, 3, 3, 0, 0]
    found = [run(job(owners={"n": owners}), horizon_s=10.0) for owners in ([0, 0, 1, 1, 2, 2, 3, 3], apart)]
    per_byte_s = 60e-9
    for times, result in zip((1, 2), found, strict=True):
        for host in (each for each in result.hosts if each.host in WORKERS):
            rate = RATE / 4
            assert host.sent_mbps == pytest.approx(times * rate * BYTES * 8e-6, rel=0.12)
    cpu = [np.mean([each.cpu for each in result.hosts if each.host in WORKERS]) for result in found]
    assert cpu[1] - cpu[0] == pytest.approx(2 * RATE / 4 * BYTES * per_byte_s / 2, rel=0.1)


def two_inputs(shares: tuple[float, float] = (1.0, 1.0), kind: str = "map") -> Deployment:
    """Job of two sources, 600 and 200 a second, each by an operator of its own with skewed keys, into n."""
    keyed = {"kind": "map", "key_groups": 8, "service_time_s": 1e-4, "service_scv": 0}
    joins = {"window": {"policy": "time", "size_s": 1.0}, "selectivity": 1e-4} if kind == "join" else {}
    end = {"kind": kind, "name": "n", "key_groups": 8, **joins}
    data = deployment(
        [source("a"), source("b"), keyed | {"name": "ma"}, keyed | {"name": "mb"}, end, sink()],
        [("a", "ma"), ("b", "mb"), ("ma", "n"), ("mb", "n"), ("n", "sink")],
        {"a": 600.0, "b": 200.0},
        hosts=hosts(*WORKERS, latency_ms=1, bandwidth_mbps=1000),
        placement=dict.fromkeys(("a", "b", "sink"), "w0") | dict.fromkeys(("ma", "mb", "n"), WORKERS),
        keys={"ma": {"zipf": 1.0}, "mb": {"zipf": 0.5}},
    ).model_dump(mode="json", exclude_none=True)
    for name, share in zip(("ma", "mb"), shares, strict=True):
        (stream,) = (each for each in data["query"]["streams"] if each["producer"] == name)
        stream["alignment"] = {"pattern": "one-to-one", "share": share}
    return parse(Deployment, data)


def test_several_aligned_inputs_count_by_their_records() -> None:
    keys = world(two_inputs()).key_groups
    assert keys["n"].weights == pytest.approx(0.75 * keys["ma"].weights + 0.25 * keys["mb"].weights)
    assert keys["n"].weights.sum() == pytest.approx(1.0)
    half = world(two_inputs((1.0, 0.5))).key_groups
    heard = 0.75 * half["ma"].weights + 0.25 * (0.5 * half["mb"].weights + 0.5 * half["n"].own)
    assert half["n"].weights == pytest.approx(heard)


@pytest.mark.parametrize("kind", ["map", "join"])
def test_each_of_several_aligned_inputs_stays_where_its_keys_are(kind: str) -> None:
    """With the same ranges of owners for all three operators, only sources send from worker to worker."""
    result = run(two_inputs(kind=kind), horizon_s=6.0)
    assert result.metrics.success
    built = world(two_inputs(kind=kind))
    for name in ("ma", "mb"):
        sent = np.array([list(task.ports[0].weights) for task in built.tasks[name]])
        assert sent == pytest.approx(np.eye(4))


def test_a_move_of_the_consumer_turns_both_inputs() -> None:
    watching = Watching()
    events = [Migration(at_s=4.0, operator="n", key_groups=(0,), to_subtask=3)]
    result = run(two_inputs(), *events, policy=watching, horizon_s=12.0)
    assert result.metrics.records_out == pytest.approx(result.metrics.records_in, rel=0.03)
    for ends in (("ma", "n"), ("mb", "n")):
        traffic = watching.seen[-1].traffic[ends]
        assert traffic == pytest.approx(np.diag(np.diag(traffic)))
        assert traffic.sum() == pytest.approx({"ma": 600.0, "mb": 200.0}[ends[0]], rel=0.1)


# what happens to it ---------------------------------------------------------------------------------------------------


def test_a_key_group_that_moves_takes_its_traffic_along():
    """A key group that moves to subtask 3 takes its traffic along, then its partner follows; nothing is lost."""
    events = [
        Migration(at_s=4.0, operator="m", key_groups=(1,), to_subtask=3),
        Migration(at_s=8.0, operator="n", key_groups=(1,), to="w3"),
        Migration(at_s=12.0, operator="m", key_groups=(0,), to="in"),
    ]
    result = run(job(), *events)
    rows_ = [row for row in result.link_rows if row["link"] == "w3"]
    bytes_s = [row["bytesOut"] / 2.0 / BYTES for row in rows_]
    assert bytes_s[1] == pytest.approx(RATE / 4, rel=0.25), "results alone"
    assert bytes_s[3] == pytest.approx(RATE / 4 + RATE / 8, rel=0.25), "and records of the group that came"
    assert bytes_s[6] == pytest.approx(3 * RATE / 8, rel=0.25), "its partner came, too"
    assert result.metrics.records_out == pytest.approx(result.metrics.records_in, rel=0.02)


def test_failures_and_scaling_keep_the_books():
    events = [
        Migration(at_s=5.0, operator="m", key_groups=(0, 5), to_subtask=2),
        Failure(at_s=5.001, host="w2", recover_after_s=2.0),
    ]
    result = run(job({"pattern": "one-to-one", "share": 0.7}), *events)
    assert any(row["kind"] == "failure" for row in result.event_rows)


def test_without_an_alignment_nothing_is_other_than_it_was():
    plain = job(None)
    assert "alignment" not in plain.model_dump_json()
    assert config_hash(Scenario.of(plain, RunSettings())) != config_hash(Scenario.of(job(), RunSettings()))
    assert RateModel().blind_to(Scenario.of(job(), RunSettings())) == ("the alignment of keys from m to n",)


# what cannot be -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "given_"),
    [
        ("give both as many", {"groups": (8, 4)}),
        ("no more than 4", {"alignment": "partial-merge", "groups": (4, 8)}),
        ("degree of 9", {"alignment": {"pattern": "partial-partitioning", "degree": 9}}),
        ("which needs it", {"alignment": "partial-partitioning"}),
        ("no other pattern", {"alignment": {"pattern": "one-to-one", "degree": 2}}),
        ("one-to-one", {"alignment": "one-to-all"}),
        ("share", {"alignment": {"pattern": "one-to-one", "share": 0}}),
        ("by the alignment", {"keys": {"n": {"zipf": 1}}}),
        ("not two-choice", {"partitioning": "two-choice"}),
        ("has none; give it key_groups", {"middle": {"key_groups": None}}),
    ],
)
def test_what_does_not_fit_is_refused(words, given_):
    with pytest.raises(BadInput, match=words):
        job(**given_)
