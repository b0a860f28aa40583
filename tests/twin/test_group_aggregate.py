"""Aggregation without windows against results that are followed record by record, and batch by batch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.twin.changing import HOSTS, column
from tests.twin.followed import following
from tests.twin.worlds import deployment, noting_worlds, simulated, sink, source
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.events import AnyEvent, Failure, Scale
from twin.job import compile
from twin.key_skew import zipf_shares
from twin.kinds.flow import KeySpread
from twin.operators.updates import BatchLogic, GlobalLogic, GroupLogic, LocalLogic
from twin.rates.arrays import JobArrays
from twin.rates.load import offered_flow
from twin.rates.model import RateModel
from twin.run import Run
from twin.scenario import RunSettings, Scenario

RATE, KEYS = 300.0, 200


def job(*middle: dict[str, Any], zipf: float = 0.0, **skew: Any) -> Deployment:
    """Job source -> these operators -> sink; the last one of these at h1 and h2, others at h0 and h1. skew: beside the
    exponent."""
    base: dict[str, Any] = {"kind": "group-aggregate", "keys": KEYS, "service_time_s": 1e-4}
    operators: list[dict[str, Any]] = [base | each for each in middle]
    names = ["source", *(each["name"] for each in operators), "sink"]
    places: dict[str, Any] = {each["name"]: ["h0", "h1"] for each in operators}
    places |= {"source": "h0", "sink": "h3", operators[-1]["name"]: ["h1", "h2"]}
    keys = {operators[-1]["name"]: {"zipf": zipf} | skew} if zipf else None
    made = [source(), *operators, sink()]
    return deployment(made, list(pairwise(names)), {"source": RATE}, hosts=HOSTS, placement=places, keys=keys)


def whole(zipf: float = 0.0, **more: Any) -> Deployment:
    """Job with one aggregation."""
    return job({"name": "total", "key_groups": 16} | more, zipf=zipf)


def phases(size: int | None = None, zipf: float = 0.0, **skew: Any) -> Deployment:
    """Job with both phases."""
    local = {"name": "partial", "phase": "local", "mini_batch_s": 0.5, "mini_batch_size": size}
    both = local, {"name": "total", "phase": "global", "key_groups": 16, "mini_batch_s": 0.5}
    return job(*both, zipf=zipf, **skew)


def ran(what: Deployment, *events: AnyEvent, horizon_s: float = 20.0, seed: int = 0) -> Run:
    return simulated(what, *events, horizon_s=horizon_s, warmup_s=0.0, period_s=2.0, seed=seed)


SCALE = (Scale(at_s=6.0, operator="total", placement=("h1", "h2", "h3")),)
FAILURE = (Failure(at_s=9.0, host="h1", recover_after_s=2.0),)


@pytest.mark.parametrize("ttl_s", [None, 1.0])
@pytest.mark.parametrize("retracts", [True, False])
@pytest.mark.parametrize("events", [(), SCALE, FAILURE], ids=["plain", "scale", "failure"])
def test_each_record_changes_the_result_of_its_key(ttl_s: float | None, retracts: bool, events: Any) -> None:
    """The first record of a key inserts a result, each other one retracts and replaces it; states are keys seen."""
    changelog = "retract" if retracts else "upsert"
    with following(GroupLogic) as found, noting_worlds() as worlds:
        ran(whole(ttl_s=ttl_s, changelog=changelog), *events)
    seen: dict[int, float] = {}
    for each in found.order:
        known = seen.get(each.key, -np.inf) + (ttl_s or np.inf) > each.came_s
        assert len(each.results) == (1 + retracts if known else 1)
        seen[each.key] = each.came_s
    left: dict[int, float] = {}
    for task in worlds[0].tasks["total"]:
        inner: Any = task.logic.steps[0]
        inner.held_bytes()
        left |= {key: row.at for key, (row,) in inner.inner.tables[0].by_key.items()}
    assert left == {key: at_s for key, at_s in seen.items() if at_s + (ttl_s or np.inf) > 20.0}
    assert (found.undone > 0) == (events is FAILURE)
    assert len(found.order) > 5000


@pytest.mark.parametrize("changing", [0.0, 0.3])
@pytest.mark.parametrize("retracts", [True, False])
@pytest.mark.parametrize("events", [(), SCALE, FAILURE], ids=["plain", "scale", "failure"])
def test_records_that_leave_a_result_as_it_is_send_nothing(changing: float, retracts: bool, events: Any) -> None:
    """The first record of a key inserts a result; of the others a share changes it, within four standard errors."""
    given = whole(changing=changing, changelog="retract" if retracts else "upsert")
    with following(GroupLogic) as found:
        ran(given, *events)
    seen, others = set[int](), list[int]()
    for each in found.order:
        if each.key in seen:
            others.append(len(each.results))
        else:
            assert len(each.results) == 1
        seen.add(each.key)
    assert set(others) <= {0, 1 + retracts}
    changed = np.array(others) > 0
    assert abs(changed.mean() - changing) <= 4 * (changing * (1 - changing) / len(others)) ** 0.5
    first, total = len(seen) / 20.0, RATE
    said = RateModel(horizon_s=20.0).predict(Scenario.of(given, RunSettings(horizon_s=20.0)), [given.plan])
    expected = first + (total - first) * changing * (1 + retracts)
    assert said["throughput_per_s"][0] == pytest.approx(expected, rel=0.02)


def test_of_a_batch_no_share_is_said_to_change() -> None:
    with pytest.raises(BadInput, match=r"'total' has changing \(0\.3\) and mini_batch_s"):
        whole(changing=0.3, mini_batch_s=0.5)


Ended = tuple[float, list[int], list[tuple[int, float]]]
"""When a batch ended; the keys of its records, in their order; keys and ages of its results."""


@contextmanager
def batches(kind: type[BatchLogic]) -> Iterator[dict[str, list[Ended]]]:
    """Batches of each subtask with logics of a kind."""
    found, coming = defaultdict[str, list[Ended]](list), defaultdict[str, list[tuple[int, float]]](list)
    put, ended = BatchLogic.put, BatchLogic.ended_batch

    def noted(logic: BatchLogic, record: Any, lot: float) -> None:
        if isinstance(logic, kind):
            coming[logic.station.name].append((record.key, record.born_s))
        put(logic, record, lot)

    def noted_end(logic: BatchLogic, at_s: float) -> Any:
        made = ended(logic, at_s)
        if isinstance(logic, kind):
            came = coming.pop(logic.station.name, [])
            results = [(each.key, each.born_s) for each in made[0]]
            for key, born_s in results:  # as old as the oldest record of the key
                assert born_s == min(each_s for other, each_s in came if other == key)
            found[logic.station.name].append((logic.station.env.now, [key for key, _ in came], results))
        return made

    with patch.object(BatchLogic, "put", noted), patch.object(BatchLogic, "ended_batch", noted_end):
        yield found


@pytest.mark.parametrize("size", [None, 40])
def test_a_key_changes_once_a_batch(size: int | None) -> None:
    """Batches end at the multiples of their length, or when so many records have come; each key changes once."""
    with batches(BatchLogic) as found:
        run = ran(whole(mini_batch_s=0.5, mini_batch_size=size))
    sent = 0
    for ended in found.values():
        seen = set[int]()
        for at_s, keys, results in ended:
            assert at_s % 0.5 < 2e-3 or len(keys) == size
            assert size is None or len(keys) <= size
            assert sorted(key for key, _ in results) == sorted([*set(keys), *(set(keys) & seen)])
            seen |= set(keys)
            sent += len(results)
        assert {round(at_s / 0.5) for at_s, _, _ in ended if at_s % 0.5 < 2e-3} >= set(range(1, 40))
    assert sum(column(run, "total", "numRecordsOut")) == pytest.approx(sent, abs=200)  # the last batch is under way


@pytest.mark.parametrize("zipf", [0.0, 1.2])
def test_the_second_phase_changes_keys_once_all_of_the_first_have_sent(zipf: float) -> None:
    """The keys of its n-th batch are those of the n-th batches before it: keys are the same in both phases. With
    frequent keys, each sends as many partial results as there are subtasks."""
    with batches(LocalLogic) as first, batches(GlobalLogic) as second:
        run = ran(phases(zipf=zipf))
    assert len(first) == len(second) == 2
    for number in range(39):
        before = [set(ended[number][1]) for ended in first.values()]
        after = [ended[number] for ended in second.values()]
        assert set.union(*before) == set.union(*(set(keys) for _, keys, _ in after))
        assert sum(len(keys) for _, keys, _ in after) == sum(map(len, before))
        assert not set.intersection(*(set(keys) for _, keys, _ in after))
    if zipf:
        frequent = np.bincount([key for ended in first.values() for _, keys, _ in ended for key in keys]).argmax()
        counts = [keys.count(int(frequent)) for ended in second.values() for _, keys, _ in ended]
        assert max(counts) == 2 and sum(counts) > 60
    latency = run.metrics.processing_latency_s
    assert latency is not None and 0.2 < latency.mean < 0.45


@pytest.mark.parametrize(
    "events",
    [FAILURE, SCALE, (Scale(at_s=6.0, operator="partial", placement=("h2",)),)],
    ids=["failure", "scale second", "scale first"],
)
def test_batches_survive_failures_and_scaling(events: tuple[AnyEvent, ...]) -> None:
    """All is taken in, and changes come as before; conservation is checked at the end of the run."""
    run = ran(phases(), *events)
    sent = column(run, "total", "numRecordsOut")
    plain = column(ran(phases()), "total", "numRecordsOut")
    assert np.mean(sent[7:]) == pytest.approx(np.mean(plain[7:]), rel=0.1)
    records = sum(column(run, "partial", "numRecordsIn"))
    assert records >= 0.97 * 20 * RATE


JOBS = {
    "at once": whole(),
    "with a time to live": whole(ttl_s=0.4),
    "upsert": whole(changelog="upsert"),
    "batches": whole(mini_batch_s=0.5),
    "small batches": whole(mini_batch_s=0.5, mini_batch_size=40),
    "phases": phases(),
    "phases with small batches": phases(size=50),
    "frequent keys in small batches": whole(zipf=1.2, mini_batch_s=0.5, mini_batch_size=40),
    "frequent keys, once": whole(zipf=2.0, ttl_s=0.4),
}


@pytest.mark.parametrize("name", JOBS)
def test_the_rate_model_knows_how_many_changes_there_are(name: str) -> None:
    """Throughput and age of results are means of runs, within 1.5 % and four standard errors."""
    given, count = JOBS[name], 8 if name == "frequent keys in small batches" else 5
    runs = [simulated(given, horizon_s=30.0, warmup_s=0.0, period_s=2.0, seed=seed) for seed in range(count)]
    scenario = Scenario.of(given, RunSettings(horizon_s=30.0))
    said = RateModel(horizon_s=30.0).predict(scenario, [given.plan])
    unseen = RateModel().blind_to(scenario)
    assert len(unseen) == (name == "phases with small batches" or "frequent" in name)
    for measure in ("throughput_per_s", "processing_latency_s")[: 1 if unseen else 2]:
        found = np.array([run.metrics.value(measure) for run in runs])
        error = 4.0 * found.std(ddof=1) / np.sqrt(count)
        if measure == "throughput_per_s" and given.query.operator("total").mini_batch_s:  # type: ignore[union-attr]
            found /= 1.0 - 0.5 / 30.0  # the last batch of the run is not over
        assert abs(said[measure][0] - found.mean()) < error + 0.015 * found.mean(), (measure, said[measure][0], found)


@pytest.mark.parametrize("zipf", [0.5, 1.5])
def test_a_first_phase_sees_as_many_keys_as_are_frequent_enough(zipf: float) -> None:
    """A subtask sees a key in a batch with the probability 1 - exp(-n p), of n records of which each has it with
    probability p: of keys that are given, by Zipf's law. Of two subtasks, it sends their sum, and the second phase two
    changes for each key that either has seen, but one of a key that is new. The rate model says the same."""
    what, horizon_s, share = phases(zipf=zipf, keys=KEYS), 60.0, zipf_shares(KEYS, zipf)
    run, count = ran(what, horizon_s=horizon_s), horizon_s / 0.5 - 1.0  # the last batch is under way
    seen, both, ever = (-np.expm1(-RATE * each_s * share) for each_s in (0.25, 0.5, horizon_s - 0.5))
    partial, total = (sum(column(run, name, "numRecordsOut")) for name in ("partial", "total"))
    assert partial == pytest.approx(2 * count * seen.sum(), abs=4.0 * np.sqrt(2 * count * np.sum(seen * (1 - seen))))
    error = 2.0 * np.sqrt(count * np.sum(both * (1 - both)))
    assert total == pytest.approx(2 * count * both.sum() - ever.sum(), abs=4.0 * error)
    rates = offered_flow(JobArrays(compile(what)), {"partial": np.array([2.0]), "total": np.array([2.0])})
    assert rates["partial"].out_per_s[0] == pytest.approx(2 * seen.sum() / 0.5, rel=2e-3)
    assert rates["total"].groups_per_fire[0] == pytest.approx(both.sum(), rel=5e-3)


@given(st.lists(st.floats(0.001, 1.0), min_size=1, max_size=6), st.floats(0.01, 20.0))
def test_what_comes_follows_from_the_keys_that_are_seen(weights: list[float], times: float) -> None:
    shares = np.array(weights) / sum(weights)
    spread = KeySpread(shares, np.arange(1.0, len(shares) + 1.0))
    came = np.array([times / (shares / spread.values).max()])
    assert spread.content(spread.distinct(came, 1.0)) == pytest.approx(came, rel=1e-3)


def test_mistakes_get_a_line() -> None:
    for more, words in (
        ({"phase": "global"}, "'total' has the phase global without mini_batch_s"),
        ({"mini_batch_size": 3}, "'total' has mini_batch_size without mini_batch_s"),
        ({"phase": "local", "mini_batch_s": 1}, "keeps no rows, and has key_groups"),
        ({"phase": "local", "mini_batch_s": 1, "key_groups": None}, "put that behind it"),
        ({"phase": "global", "mini_batch_s": 1}, "takes partial results of group-aggregates with phase: local only"),
    ):
        with pytest.raises(BadInput, match=words):
            whole(**more)
    local = {"name": "partial", "phase": "local", "mini_batch_s": 0.5, "keys": 7}
    with pytest.raises(BadInput, match="has 7 keys and 'total' 200; give both phases the same"):
        job(local, {"name": "total", "phase": "global", "key_groups": 16, "mini_batch_s": 0.5})
