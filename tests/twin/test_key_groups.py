"""Key groups: weights, owners, skew, drift, state, and effects of a hot subtask on a run."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from tests.twin.worlds import HOST, chain, joined, simulated, world_of
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.key_skew import zipf_shares
from twin.rates.model import RateModel
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate
from twin.spec import parse
from twin.workload import contiguous
from twin.world.world import World


def keyed(
    rate: float,
    parallelism: int,
    skew: dict[str, Any] | None = None,
    owners: tuple[int, ...] | None = None,
    **operator: Any,
) -> Deployment:
    """Job source -> keyed map -> sink."""
    middle = {"kind": "map", "name": "m", "key_groups": 32, "service_time_s": 1e-3, "service_scv": 1} | operator
    places = {"m": {"h": parallelism}, "sink": {"h": parallelism}}
    keys = None if skew is None else {"m": skew}
    job = chain([middle], rate, placement=places, partitioning={"sink": "forward"}, keys=keys)
    return job if owners is None else job.with_plan(job.plan.model_copy(update={"key_groups": {"m": owners}}))


def world(job: Deployment, seed: int = 0) -> World:
    return world_of(job, RunSettings(seed=seed))


def test_weights_follow_zipf_in_an_order_of_the_seed() -> None:
    job = keyed(100, 4, {"zipf": 1.2})
    first, same, other = (world(job, seed).key_groups["m"].weights for seed in (1, 1, 2))
    assert np.array_equal(first, same)
    assert not np.array_equal(first, other)
    for weights in (first, other):
        assert np.sort(weights)[::-1] == pytest.approx(zipf_shares(32, 1.2))
        assert weights.sum() == pytest.approx(1)


def test_drift_moves_ranks_and_keeps_the_law() -> None:
    job = keyed(100, 4, {"zipf": 1, "drift_every_s": 5, "drift_share": 0.25})
    built = world(job)
    groups = built.key_groups["m"]
    seen = [groups.weights.copy()]
    for end_s in (4, 6, 11):
        built.advance(end_s)
        seen.append(groups.weights.copy())
    assert np.array_equal(seen[0], seen[1])
    for before, after in pairwise(seen[1:]):
        assert 2 <= np.sum(before != after) <= 8
        assert np.sort(after) == pytest.approx(np.sort(before))
    assert built.tasks["source"][0].ports[0].weights == pytest.approx(_owned(groups.weights, groups.owner, 4))


def _owned(weights: np.ndarray, owner: list[int], parallelism: int) -> list[float]:
    return [sum(w for w, o in zip(weights, owner, strict=True) if o == subtask) for subtask in range(parallelism)]


def test_records_follow_owners_and_moves() -> None:
    """Each subtask's share of the records is the weight of its key groups, also after moves."""
    built = world_of(keyed(1000, 3, {"zipf": 0.8}), RunSettings(horizon_s=60))
    groups = built.key_groups["m"]
    before = [0, 0, 0]
    for end_s in (10, 20):
        built.advance(end_s)
        after = [task.records_in for task in built.tasks["m"]]
        took = np.subtract(after, before)
        assert took / took.sum() == pytest.approx(_owned(groups.weights, groups.owner, 3), abs=0.015)
        assert (took[groups.owners()] * groups.parts()).sum() == pytest.approx(took.sum())
        before = after
        heaviest = int(np.argmax(groups.weights))
        groups.owner[heaviest] = (groups.owner[heaviest] + 1) % 3
        groups.refresh()


def test_a_hot_subtask_limits_throughput() -> None:
    """Backpressure holds all subtasks to the rate at which the hottest is just full: capacity / its share."""
    job = keyed(3000, 4, {"zipf": 1.0})
    hottest = max(world(job).key_groups["m"].shares())
    settings = RunSettings(horizon_s=15, warmup_s=5, period_s=5)
    run = simulate(Scenario.of(job, settings))
    assert 1000 / hottest < 2800
    assert run.metrics.throughput_per_s == pytest.approx(1000 / hottest, rel=0.05)
    assert run.metrics.backpressured
    assert simulate(Scenario.of(keyed(3000, 4), settings)).metrics.throughput_per_s == pytest.approx(3000, rel=0.02)


def test_distinct_groups_live_with_their_key_groups() -> None:
    """A subtask emits the groups of its key groups: with a quarter of these, a quarter of 100."""
    window = {"policy": "time", "size_s": 5.0}
    operator = {"kind": "aggregate", "name": "m", "window": window, "group_by": "int", "groups": 100, "key_groups": 40}
    owners = (0,) * 10 + (1,) * 30
    data = chain([operator], 2000, placement={"m": {"h": 2}}).model_dump(mode="json", exclude_none=True)
    data["plan"]["key_groups"] = {"m": owners}
    job = parse(Deployment, data)
    built = world_of(job, RunSettings())
    built.advance(10.5)
    assert [task.output.records_out for task in built.tasks["m"]] == [2 * 25, 2 * 75]


def test_matches_of_a_join_do_not_depend_on_the_owners() -> None:
    """Records of a key meet wherever their key group is, skewed or not."""
    join = {
        "kind": "join",
        "name": "j",
        "window": {"policy": "time", "size_s": 1},
        "selectivity": 0.01,
        "key_groups": 16,
        "service_time_s": 1e-6,
    }
    for skew in ({}, {"j": {"zipf": 1.0}}):
        job = joined(join, {"l": 100, "r": 200}, placement={"j": {"h": 4}}, keys=skew)
        run = simulated(job, horizon_s=60, warmup_s=5)
        assert run.metrics.throughput_per_s == pytest.approx(0.01 * 100 * 200, rel=0.06)


def test_state_of_key_groups_is_in_memory_and_in_the_statistics() -> None:
    job = keyed(100, 2, state_bytes_per_group=1e6)
    run = simulated(job, horizon_s=10)
    bare = simulated(keyed(100, 2), horizon_s=10)
    rows = [row for row in run.operator_rows if row["operator"] == "m"]
    assert rows[-1]["stateBytes"] == pytest.approx(32e6)
    extra_mb = run.hosts[0].memory_mb - bare.hosts[0].memory_mb
    assert extra_mb == pytest.approx(32 * job.engine.memory.object_overhead, rel=0.01)
    predicted = RateModel().answer(job, [job.plan]).memory[0, 0]
    assert predicted == pytest.approx(run.hosts[0].memory_mb / HOST["ram_mb"], rel=0.01)
    groups = world(job).key_groups["m"]
    assert groups.states_bytes().sum() == pytest.approx(32e6)
    assert groups.states_bytes()[3] == pytest.approx(1e6)


def test_too_much_state_crashes_its_host() -> None:
    small = {**HOST, "name": "small", "ram_mb": 500}
    data = keyed(100, 1, state_bytes_per_group=1e6).model_dump(mode="json", exclude_none=True)
    data["cluster"]["hosts"].append(small)
    data["plan"]["placement"]["m"] = "small"
    assert simulated(parse(Deployment, data), horizon_s=10).crashed


GOOD = keyed(10, 2, {"zipf": 1}, tuple([0] * 16 + [1] * 16)).model_dump(mode="json", exclude_none=True)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: d["plan"]["key_groups"].update(m=[0, 1]), r"key_groups\.m has 2 entries for 32 key groups"),
        (lambda d: d["plan"]["key_groups"].update(m=[2] * 32), r"names subtask 2; 'm' has 2 subtasks"),
        (lambda d: d["plan"]["key_groups"].update(sink=[0]), r"'sink', which has no key groups; give the operator"),
        (lambda d: d["plan"]["key_groups"].update(x=[0]), r"plan\.key_groups names unknown operator 'x'"),
        (lambda d: d["workload"]["keys"].update(x={"zipf": 1}), r"workload\.keys names unknown operator 'x'"),
        (lambda d: d["workload"]["keys"]["m"].update(zipf=-1), r"zipf.*greater than or equal to 0"),
        (lambda d: d["workload"]["keys"]["m"].update(drift_every_s=0), r"drift_every_s.*greater than"),
        (lambda d: _operator(d).pop("key_groups"), r"'m', which has no key groups"),
        (lambda d: _operator(d).update(key_groups=0), r"key_groups.*greater than or equal to 1"),
        (lambda d: d["query"]["streams"][0].update(partitioning="rebalance"), r"has key groups and a rebalance input"),
        (
            lambda d: (d["plan"].pop("key_groups"), d["plan"]["placement"].update(m={"h": 40})),
            r"32 key groups for 40 subtasks",
        ),
    ],
)
def test_bad_key_groups_are_one_line(change: Callable[[Any], object], says: str) -> None:
    data = parse(Deployment, GOOD).model_dump(mode="json", exclude_none=True)
    change(data)
    with pytest.raises(BadInput, match=says):
        parse(Deployment, data)


def _operator(data: Any) -> Any:
    return next(each for each in data["query"]["operators"] if each["name"] == "m")


def test_the_analytic_model_knows_the_hot_subtask_and_the_state() -> None:
    """The rate model's throughput is that of the law, over the orders of frequency that seeds may draw."""
    job = keyed(3000, 4, {"zipf": 1.0})
    hottest = [max(world(job, seed).key_groups["m"].shares()) for seed in range(12)]
    estimate = RateModel(horizon_s=1e6).predict(job, [job.plan])
    assert estimate["throughput_per_s"][0] == pytest.approx(1000 / np.mean(hottest), rel=0.12)
    full = keyed(100, 1, state_bytes_per_group=1e9)
    assert RateModel().predict(full, [full.plan])["throughput_per_s"][0] == 0.0


def test_distinct_groups_under_skew_match_brute_force() -> None:
    """A short window misses most rare groups, as by brute force; 200 groups, one a key group, Zipf 1.2."""
    window = {"policy": "count", "size_records": 300}
    operator = {"kind": "aggregate", "name": "m", "window": window, "group_by": "int", "groups": 200, "key_groups": 200}
    rng = np.random.default_rng(0)
    shares = zipf_shares(200, 1.2)
    brute = [len(set(rng.choice(200, size=300, p=shares))) for _ in range(400)]
    run = simulated(chain([operator], 3000, keys={"m": {"zipf": 1.2}}), horizon_s=20)
    assert run.metrics.throughput_per_s == pytest.approx(np.mean(brute) * 10, rel=0.03)


MEASURED = [5.0] * 8 + [1.0] * 24
"""Shares of 32 key groups, dealt to four subtasks in ranges: the first gets 40 of 64."""


def test_measured_shares_are_what_subtasks_get() -> None:
    """Subtasks get measured shares in the simulator, and the hottest by the rate model."""
    job = keyed(1000, 4, {"shares": MEASURED})
    built = world_of(job, RunSettings(horizon_s=30))
    owned = np.bincount(contiguous(32, 4), np.array(MEASURED) / 64)
    assert built.key_groups["m"].shares() == pytest.approx(owned.tolist())
    busiest = RateModel().answer(job, [job.plan]).busiest[0]
    assert busiest[1] == pytest.approx(4 * 40 / 64)


@pytest.mark.parametrize(
    ("skew", "words"),
    [
        ({"shares": [1.0, 2.0]}, "2 shares for 32 key groups"),
        ({"shares": MEASURED, "zipf": 1.0}, "leave out zipf"),
        ({"shares": [0.0] * 32}, "must not all be 0"),
        ({"shares": [-1.0] * 32}, "greater than or equal to 0"),
    ],
)
def test_shares_that_cannot_be(skew: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        keyed(1000, 4, skew)
