"""How streams are dealt: turns among many replicas, two choices, shared queues, and channels that drop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.twin.worlds import HOST, chain, latencies_s, simulated
from twin.deployment import Deployment
from twin.engine.keys.two_choice import second_choice, settled_shares
from twin.engine.partitioners import Partitioner
from twin.engine.record import Record
from twin.errors import BadInput
from twin.key_skew import zipf_shares
from twin.keys import contiguous
from twin.profiles import STORM
from twin.rates.model import RateModel
from twin.rates.queueing import erlang_b, erlang_c, mmc_wait_s
from twin.scenario import RunSettings
from twin.spec import parse
from twin.wiring.build import build
from twin.wiring.wiring import Wiring


def with_stream(job: Deployment, consumer: str, **changes: Any) -> Deployment:
    """The same job with some fields of the streams into `consumer` changed."""
    data = job.model_dump(mode="json", exclude_none=True)
    for each in data["query"]["streams"]:
        if each["consumer"] == consumer:
            each.update(changes)
    return parse(Deployment, data)


# who sends to whom --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["hash", "rebalance"])
def test_as_many_replicas_as_producers_send_over_the_network(how: str) -> None:
    """Replicas at the same four places: three tuples of four go elsewhere, which takes 10 ms."""
    places = [f"h{number}" for number in range(4)]
    hosts = [{**HOST, "name": name, "latency_ms": 10.0} for name in places]
    both = {"a": places, "b": places, "source": "h0", "sink": "h0"}
    middle = [{"kind": "map", "name": name, "service_time_s": 1e-4} for name in "ab"]
    job = chain(middle, 400, hosts=hosts, placement=both, partitioning={"b": how})
    latency = simulated(job, horizon_s=12, warmup_s=2, period_s=2).metrics.e2e_latency_s
    assert latency is not None and latency.mean == pytest.approx(3 * 0.75 * 10e-3, rel=0.05)


# turns --------------------------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(
    weights=st.lists(st.sampled_from([0.0, 1.0, 2.0]), min_size=1, max_size=60).filter(any),
    first=st.integers(0, 59),
    count=st.integers(1, 400),
)
def test_records_go_in_turn_to_replicas_that_have_a_share(weights: list[float], first: int, count: int) -> None:
    """From where the producer begins; no replica ever gets two more than another, and those without a share nothing."""
    partitioner = Partitioner(weights, first=first % len(weights))
    got = [next(iter(partitioner.parts(Record(0.0, 0.0, 0.0))))[0] for _ in range(count)]
    sent = np.bincount(got, minlength=len(weights))[np.array(weights) > 0]
    assert sent.sum() == count and sent.max() - sent.min() <= 1
    assert got[0] == min((k for k, weight in enumerate(weights) if weight), key=lambda k: (k - first) % len(weights))


# two choices --------------------------------------------------------------------------------------------------------


def skewed_job(how: str, rate: float = 4000.0, zipf: float = 1.0, replicas: int = 8) -> Deployment:
    middle = {"kind": "map", "name": "m", "key_groups": 256, "service_time_s": 1e-3, "service_scv": 1}
    places = {"m": {"h": replicas}, "sink": {"h": replicas}}
    dealt = {"m": how, "sink": "forward"}
    return chain([middle], rate, placement=places, partitioning=dealt, keys={"m": {"zipf": zipf}})


def imbalance(job: Deployment, seconds: float = 2.0) -> float:
    """(max - mean) / mean of the tuples that the replicas took."""
    built = build(Wiring(job, RunSettings(horizon_s=seconds)))
    built.env.run(until=seconds)
    taken = np.array([task.tuples_in + task.queued for task in built.tasks["m"]])
    return float(taken.max() / taken.mean() - 1)


def test_two_choices_balance_what_hash_does_not() -> None:
    hashed, chosen = (imbalance(skewed_job(how)) for how in ("hash", "two-choice"))
    assert hashed > 0.3
    assert chosen < 0.02
    # the most frequent key group alone, over two replicas
    beyond = zipf_shares(256, 2.0)[0] / 2 * 8 - 1
    assert imbalance(skewed_job("two-choice", zipf=2.0)) == pytest.approx(beyond, abs=0.1)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1000), replicas=st.integers(2, 12), zipf=st.floats(0, 2))
def test_settled_shares_are_what_greedy_choice_tends_to(seed: int, replicas: int, zipf: float) -> None:
    """Against 20,000 tuples sent one by one, each to the candidate that has got less."""
    rng = np.random.default_rng(seed)
    weights = rng.permutation(zipf_shares(4 * replicas, zipf))
    first = contiguous(len(weights), replicas)
    second = second_choice(first, replicas)
    assert all(a != b for a, b in zip(first, second, strict=True))
    sent = [0] * replicas
    for group in rng.choice(len(weights), size=20_000, p=weights):
        a, b = first[group], second[group]
        sent[a if sent[a] <= sent[b] else b] += 1
    shares = settled_shares(weights, first, second, replicas)
    assert shares.sum() == pytest.approx(1)
    assert shares == pytest.approx(np.array(sent) / 20_000, abs=0.02)


def test_two_choice_without_key_groups_has_its_own() -> None:
    middle = {"kind": "filter", "name": "m", "selectivity": 1}
    job = chain([middle], 100, placement={"m": {"h": 20}}, partitioning={"m": "two-choice"})
    assert len(build(Wiring(job, RunSettings())).key_groups["m"]) == 16 * 20


def test_partial_results_of_two_choices_are_twice_as_many() -> None:
    """Each of 40 groups is on both of its candidates: up to 80 partial results a window, for an operator to merge."""
    window = {"policy": "time", "size_s": 5.0}
    middle = {"kind": "aggregate", "name": "m", "window": window, "group_by": "int", "groups": 40, "key_groups": 40}
    for how, results in ((None, 40), ("two-choice", 80)):
        job = chain([middle], 4000, placement={"m": {"h": 4}}, partitioning={"m": how})
        found = simulated(job, horizon_s=30, warmup_s=10).metrics
        assert found.throughput_per_s == pytest.approx(results / 5, rel=0.02)


def test_two_choice_into_a_join_is_refused() -> None:
    from tests.twin.test_joins import WINDOWS, star

    with pytest.raises(BadInput, match="two-choice into join 'j' sends tuples that match to different replicas"):
        with_stream(star({"a": 1, "b": 1}, WINDOWS["time"], selectivity=0.1), "j", partitioning="two-choice")


# shared queues ------------------------------------------------------------------------------------------------------


def pool_job(servers: int, load: float, channel: int | None = None, cores: int = 64, **stream: Any) -> Deployment:
    """A Poisson source into a queue that `servers` replicas share, 1,000 tuples a second a replica at full load."""
    middle = {"kind": "filter", "name": "m", "selectivity": 1, "service_time_s": 1e-3, "service_scv": 1}
    job = chain(
        [middle],
        1000 * servers * load,
        hosts=[HOST | {"cpu_percent": 100 * cores}],  # a core a task, unless there are fewer
        placement={"m": {"h": servers}, "sink": {"h": servers}},
        engine=STORM.model_dump(mode="json") | ({"channel_tuples": channel} if channel else {}),
        partitioning={"m": "shared", "sink": "forward"},
    )
    return with_stream(job, "m", **stream)


@pytest.mark.parametrize("scv", [0.0, 1.0, 4.0])
def test_the_rate_model_knows_the_waits_in_a_common_queue(scv: float) -> None:
    """By Allen and Cunneen."""
    data = pool_job(3, 0.8).model_dump(mode="json", exclude_none=True)
    next(each for each in data["query"]["operators"] if each["name"] == "m")["service_scv"] = scv
    job = parse(Deployment, data)
    found = RateModel(horizon_s=1e6).predict(job, [job.plan])["processing_latency_s"][0]
    assert found == pytest.approx(1e-3 + mmc_wait_s(3, 0.8, 1e-3) * (1.0 + scv) / 2.0, rel=1e-3)


def waits_s(job: Deployment, seeds: int, horizon_s: float) -> np.ndarray:
    times = {"horizon_s": horizon_s, "warmup_s": horizon_s / 10, "period_s": horizon_s / 10}
    return latencies_s(job, seeds, **times) - 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("load", [0.5, 0.8])
@pytest.mark.parametrize("servers", [2, 3, 8])
def test_exact_shared_queue_is_m_m_c(servers: int, load: float) -> None:
    means = waits_s(pool_job(servers, load), seeds=16, horizon_s=3 / servers)
    error = means.std(ddof=1) / np.sqrt(len(means))
    assert abs(means.mean() - mmc_wait_s(servers, load, 1e-3)) < 4 * error


def test_replicas_of_a_shared_queue_are_used_alike() -> None:
    built = build(Wiring(pool_job(4, 0.5), RunSettings(horizon_s=4)))
    built.env.run(until=4)
    taken = [task.tuples_in for task in built.tasks["m"]]
    assert max(taken) < 1.1 * min(taken)


def test_a_saturated_shared_queue_uses_all_of_its_replicas() -> None:
    run = simulated(pool_job(3, 1.5), horizon_s=6, warmup_s=2, period_s=2)
    assert run.metrics.throughput_per_s == pytest.approx(3000, rel=0.03)
    assert run.metrics.backpressured
    assert run.metrics.processing_latency_s is not None  # one channel in all: 1,024 tuples at 3,000 a second
    assert run.metrics.processing_latency_s.p50 == pytest.approx(1024 / 3000, rel=0.15)


def test_closed_forms() -> None:
    assert erlang_c(1, 0.7) == pytest.approx(0.7)
    assert erlang_c(2, 0.5) == pytest.approx(1 / 3)
    assert mmc_wait_s(1, 0.8, 1.0) == pytest.approx(4.0)
    assert mmc_wait_s(2, 0.8, 1.0) == pytest.approx(0.8**2 / (1 - 0.8**2))
    assert erlang_b(1, 0.8) == pytest.approx(0.8 / 1.8)
    assert erlang_c(2000, 0.99) < 1.0


def test_a_shared_queue_between_hosts_is_refused() -> None:
    data = pool_job(2, 0.5).model_dump(mode="json", exclude_none=True)
    data["cluster"]["hosts"].append({**data["cluster"]["hosts"][0], "name": "other"})
    data["plan"]["placement"]["m"] = ["h", "other"]
    with pytest.raises(BadInput, match=r"placement\.m: replicas that take from a shared queue must be on one host"):
        parse(Deployment, data)


# channels that drop -------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("servers", "load", "channel"), [(1, 0.8, 4), (1, 1.5, 4), (1, 0.95, 12), (3, 0.9, 2)])
def test_lost_share_of_an_exact_channel_is_that_of_m_m_c_k(servers: int, load: float, channel: int) -> None:
    """K is the channel and the tuples in service."""
    shares = []
    for seed in range(20):
        job = pool_job(servers, load, channel, overflow="drop")
        run = simulated(job, horizon_s=1 / servers, period_s=1, seed=seed)
        source = [row for row in run.operator_rows if row["operator"] == "source"]
        lost, made = (sum(row[key] for row in source) for key in ("numRecordsDropped", "numRecordsOut"))
        assert not run.metrics.backpressured
        shares.append(lost / made)
    error = np.std(shares, ddof=1) / np.sqrt(len(shares))
    expected = erlang_b(servers, load * servers)
    for _ in range(channel):  # a place more
        expected *= load / (1.0 + load * expected)
    assert abs(np.mean(shares) - expected) < 4 * error


@pytest.mark.parametrize(("load", "lost"), [(0.7, 0.0), (1.5, 1 / 3), (4.0, 3 / 4)])
@pytest.mark.parametrize("servers", [1, 3])
def test_fast_channels_drop_what_is_beyond_capacity(servers: int, load: float, lost: float) -> None:
    run = simulated(pool_job(servers, load, overflow="drop"), horizon_s=60, warmup_s=10)
    source = [row for row in run.operator_rows if row["operator"] == "source" and row["start_s"] >= 10]
    dropped, made = (sum(row[key] for row in source) for key in ("numRecordsDropped", "numRecordsOut"))
    assert dropped / made == pytest.approx(lost, abs=0.02)
    assert not run.metrics.backpressured


# in turn ------------------------------------------------------------------------------------------------------------


def erlang_arrivals_sojourn_s(replicas: int, load: float, service_s: float) -> float:
    """Mean time in an E_k/M/1 queue: what a replica is that gets every k-th tuple of a Poisson stream."""
    share = 0.5
    for _ in range(200):
        share = (replicas * load / (replicas * load + 1.0 - share)) ** replicas
    return service_s / (1.0 - share)


@pytest.mark.parametrize("replicas", [2, 4, 8, 12])
def test_replicas_served_in_turn_are_e_k_m_1_queues(replicas: int) -> None:
    """A replica gets every K-th record of a Poisson stream."""
    middle = {"kind": "map", "name": "m", "service_time_s": 1e-3, "service_scv": 1}
    job = chain([middle], 500 * replicas, hosts=[HOST | {"cpu_percent": 6400}], placement={"m": {"h": replicas}})
    expected = erlang_arrivals_sojourn_s(replicas, 0.5, 1e-3)
    latency = simulated(job, horizon_s=24 / replicas, period_s=1)
    assert latency.metrics.processing_latency_s.mean == pytest.approx(expected, rel=0.06)
