"""How streams are dealt: turns among many replicas, two choices, shared queues, and channels that drop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.twin.worlds import HOST, chain
from twin.deployment import Deployment
from twin.engine.dealing.in_turn import SCAN_REPLICAS, Deal
from twin.engine.dealing.turns import Turns
from twin.engine.dealing.two_choice import second_choice, settled_shares
from twin.engine.segment import Segment
from twin.errors import BadInput
from twin.key_skew import zipf_shares
from twin.keys import contiguous
from twin.profiles import STORM
from twin.rates.model import RateModel
from twin.rates.queues import erlang_c, mmc_wait_s, mmck_loss
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate
from twin.spec import parse
from twin.wiring.wiring import Wiring


def with_stream(job: Deployment, consumer: str, keys: dict[str, Any] | None = None, **changes: Any) -> Deployment:
    """The same job with some fields of the streams into `consumer` changed."""
    data = job.model_dump(mode="json", exclude_none=True)
    for each in data["query"]["streams"]:
        if each["consumer"] == consumer:
            each.update(changes)
    data["workload"]["keys"] = keys or {}
    return parse(Deployment, data)


# who sends to whom --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("producers", [2, 3, 4, 6, 20])
@pytest.mark.parametrize("weights", [[1.0] * 2, [1.0] * 4, [5.0, 4.0, 4.0, 3.0], [1.0] * 20], ids=str)
def test_producers_that_make_segments_in_turn_send_to_all_replicas(producers: int, weights: list[float]) -> None:
    """Not in step, producer k to replica k; and no replica gets other than its share."""
    shares = np.array(weights) / sum(weights)
    deal = Deal(shares.tolist(), producers=producers)
    sent, n = np.zeros((producers, len(weights))), 12
    for number in range(3000 * producers):
        segment = Segment(n, number * 0.1, number * 0.1 + 1.0, 0.0, 0.0, 0.0, 0.0)
        for replica, part in deal.parts(segment):
            sent[number % producers, replica] += part.n
    assert sent.sum(axis=0) == pytest.approx(shares * sent.sum(), abs=4 * n)
    pairs = sent / (sent.sum() * shares / producers)
    assert pairs.min() > 0.5 and pairs.max() < 1.6  # in step: 0 and the number of replicas


@pytest.mark.parametrize("how", ["hash", "rebalance"])
def test_as_many_replicas_as_producers_send_over_the_network_as_in_exact_runs(how: str) -> None:
    """Replicas at the same four places: three tuples of four go elsewhere, which takes 10 ms."""
    places = [f"h{number}" for number in range(4)]
    hosts = [{**HOST, "name": name, "latency_ms": 10.0} for name in places]
    both = {"a": places, "b": places, "source": "h0", "sink": "h0"}
    middle = [{"kind": "map", "name": name, "service_time_s": 1e-4} for name in "ab"]
    job = with_stream(chain(middle, 400, hosts=hosts, placement=both), "b", partitioning=how)
    runs = [RunSettings(fidelity=fidelity, horizon_s=12, warmup_s=2, period_s=2) for fidelity in ("exact", "fast")]
    exact, fast = (simulate(Scenario.of(job, each)).metrics.e2e_latency_s.mean for each in runs)
    assert exact == pytest.approx(3 * 0.75 * 10e-3, rel=0.05)
    assert fast == pytest.approx(exact, rel=0.05)


# turns --------------------------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(
    weights=st.lists(st.sampled_from([0.0, 1.0, 2.0, 7.0]), min_size=2, max_size=60).filter(any),
    first=st.integers(0, 59),
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=400),
)
def test_turns_keep_to_the_weights(weights: list[float], first: int, sizes: list[int]) -> None:
    """No replica ever gets more than a segment beyond its share and its first turn; weight 0 gets nothing."""
    total = sum(weights)
    shares = [weight / total for weight in weights]
    turns = Turns(shares, first % len(weights), sizes[0])
    sent = np.zeros(len(weights))
    for count, n in enumerate(sizes, 1):
        sent[turns.next(n)] += n
        owed = np.array(shares) * sum(sizes[:count])
        assert (sent[np.array(shares) == 0] == 0).all()
        assert (sent - owed).max() <= 2 * max(sizes)


def test_many_equal_replicas_are_dealt_round_from_where_the_producer_begins() -> None:
    replicas = 3 * SCAN_REPLICAS
    deal = Deal([1 / replicas] * replicas, first=5)
    got = [next(iter(deal.parts(Segment(1, 0, 0, 0, 0, 0, 0))))[0] for _ in range(2 * replicas)]
    assert got == [(5 + k) % replicas for k in range(2 * replicas)]


@settings(max_examples=60, deadline=None)
@given(
    replicas=st.integers(2, 40),
    steps=st.lists(st.tuples(st.integers(1, 200), *[st.floats(0.0, 1.0)] * 4), min_size=1, max_size=60),
)
def test_dealt_tuples_keep_their_ages(replicas: int, steps: list[tuple[int, float, float, float, float]]) -> None:
    """However far a segment is stretched, no tuple of it looks older or younger than all were."""
    deal, now_s = Deal([1 / replicas] * replicas, producers=3), 0.0
    for n, gap_s, length_s, first_age_s, last_age_s in steps:
        a_s, b_s = now_s + gap_s, now_s + gap_s + length_s
        now_s = b_s
        low_s, high_s = sorted((first_age_s, last_age_s))
        stamps_s = a_s - first_age_s, b_s - last_age_s
        for _, part in deal.parts(Segment(n, a_s, b_s, *stamps_s, *stamps_s)):
            for age_s in (part.a_s - part.born0_s, part.b_s - part.born1_s, part.a_s - part.taken0_s):
                assert low_s - 1e-9 <= age_s <= high_s + 1e-9


# two choices --------------------------------------------------------------------------------------------------------


def skewed_job(how: str, rate: float = 4000.0, zipf: float = 1.0, replicas: int = 8) -> Deployment:
    middle = {"kind": "map", "name": "m", "key_groups": 256, "service_time_s": 1e-3, "service_scv": 1}
    job = chain([middle], rate, placement={"m": {"h": replicas}, "sink": {"h": replicas}})
    return with_stream(with_stream(job, "sink", partitioning="forward"), "m", {"m": {"zipf": zipf}}, partitioning=how)


def imbalance(job: Deployment, fidelity: str, seconds: float = 2.0) -> float:
    """(max - mean) / mean of the tuples that the replicas took."""
    built = Wiring(job, RunSettings(fidelity=fidelity, horizon_s=seconds)).build()
    built.env.run(until=seconds)
    taken = np.array([task.tuples_in + task.queued for task in built.tasks["m"]])
    return float(taken.max() / taken.mean() - 1)


@pytest.mark.slow
@pytest.mark.parametrize("load", [0.5, 0.8])
def test_fast_queue_shared_by_many_is_m_m_c_within_a_tenth_of_the_sojourn(load: float) -> None:
    means = waits_s(pool_job(16, load, cores=18), "fast", seeds=3, horizon_s=30)
    expected = mmc_wait_s(16, load, 1e-3)
    error = means.std(ddof=1) / np.sqrt(len(means))
    assert abs(means.mean() - expected) < 0.1 * (expected + 1e-3) + 2 * error


@pytest.mark.parametrize("fidelity", ["exact", "fast"])
def test_two_choices_balance_what_hash_does_not(fidelity: str) -> None:
    hashed, chosen = (imbalance(skewed_job(how), fidelity) for how in ("hash", "two-choice"))
    assert hashed > 0.3
    assert chosen < 0.05 if fidelity == "fast" else chosen < 0.02
    # the most frequent key group alone, over two replicas
    beyond = zipf_shares(256, 2.0)[0] / 2 * 8 - 1
    assert imbalance(skewed_job("two-choice", zipf=2.0), fidelity) == pytest.approx(beyond, abs=0.1)


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
    job = with_stream(chain([middle], 100, placement={"m": {"h": 20}}), "m", partitioning="two-choice")
    assert len(Wiring(job, RunSettings()).build().key_groups["m"]) == 16 * 20


def test_partial_results_of_two_choices_are_twice_as_many() -> None:
    """Each of 40 groups is on both of its candidates: up to 80 partial results a window, for an operator to merge."""
    window = {"policy": "time", "size_s": 5.0}
    middle = {"kind": "aggregate", "name": "m", "window": window, "group_by": "int", "groups": 40, "key_groups": 40}
    job = chain([middle], 4000, placement={"m": {"h": 4}})
    settings_ = RunSettings(horizon_s=30, warmup_s=10)
    assert simulate(Scenario.of(job, settings_)).metrics.throughput_per_s == pytest.approx(40 / 5, rel=0.02)
    chosen = simulate(Scenario.of(with_stream(job, "m", partitioning="two-choice"), settings_))
    assert chosen.metrics.throughput_per_s == pytest.approx(80 / 5, rel=0.02)


def test_two_choice_into_a_join_is_refused() -> None:
    from tests.twin.test_joins import WINDOWS, star

    with pytest.raises(BadInput, match="two-choice into join 'j' would part matching tuples; use hash"):
        with_stream(star({"a": 1, "b": 1}, WINDOWS["time"], selectivity=0.1), "j", partitioning="two-choice")


# shared queues ------------------------------------------------------------------------------------------------------


def pool_job(servers: int, load: float, channel: int | None = None, cores: int = 64, **stream: Any) -> Deployment:
    """A Poisson source into a queue that `servers` replicas share, 1,000 tuples a second a replica at full load."""
    middle = {"kind": "filter", "name": "m", "selectivity": 1, "service_time_s": 1e-3, "service_scv": 1}
    data = chain([middle], 1000 * servers * load, placement={"m": {"h": servers}, "sink": {"h": servers}}).model_dump(
        mode="json", exclude_none=True
    )
    data["cluster"]["hosts"][0]["cpu_percent"] = 100 * cores  # a core a task, unless there are fewer
    data["engine"] = STORM.model_dump(mode="json") | ({"channel_tuples": channel} if channel else {})
    job = with_stream(parse(Deployment, data), "sink", partitioning="forward")
    return with_stream(job, "m", partitioning="shared", **stream)


def waits_s(job: Deployment, fidelity: str, seeds: int, horizon_s: float) -> np.ndarray:
    means = []
    for seed in range(seeds):
        settings_ = RunSettings(
            horizon_s=horizon_s, warmup_s=horizon_s / 10, period_s=horizon_s / 10, fidelity=fidelity, seed=seed
        )
        latency = simulate(Scenario.of(job, settings_)).metrics.processing_latency_s
        assert latency is not None
        means.append(latency.mean - 1e-3)
    return np.array(means)


@pytest.mark.slow
@pytest.mark.parametrize("load", [0.5, 0.8])
@pytest.mark.parametrize("servers", [2, 3, 8])
def test_exact_shared_queue_is_m_m_c(servers: int, load: float) -> None:
    means = waits_s(pool_job(servers, load), "exact", seeds=16, horizon_s=3 / servers)
    error = means.std(ddof=1) / np.sqrt(len(means))
    assert abs(means.mean() - mmc_wait_s(servers, load, 1e-3)) < 4 * error


@pytest.mark.slow
@pytest.mark.parametrize("load", [0.5, 0.8, 0.9])
@pytest.mark.parametrize("servers", [2, 3, 8])
def test_fast_shared_queue_is_within_7_percent_of_m_m_c(servers: int, load: float) -> None:
    means = waits_s(pool_job(servers, load), "fast", seeds=3, horizon_s=150 / servers)
    expected = mmc_wait_s(servers, load, 1e-3)
    error = means.std(ddof=1) / np.sqrt(len(means))
    # of the sojourn where hardly anything waits
    assert abs(means.mean() - expected) < 0.07 * expected + 2 * error + 0.01e-3


@pytest.mark.parametrize("fidelity", ["exact", "fast"])
def test_replicas_of_a_shared_queue_are_used_alike(fidelity: str) -> None:
    built = Wiring(pool_job(4, 0.5), RunSettings(fidelity=fidelity, horizon_s=4)).build()
    built.env.run(until=4)
    taken = [task.tuples_in for task in built.tasks["m"]]
    assert max(taken) < 1.1 * min(taken)


@pytest.mark.parametrize("fidelity", ["exact", "fast"])
def test_a_saturated_shared_queue_uses_all_of_its_replicas(fidelity: str) -> None:
    run = simulate(Scenario.of(pool_job(3, 1.5), RunSettings(horizon_s=6, warmup_s=2, period_s=2, fidelity=fidelity)))
    assert run.metrics.throughput_per_s == pytest.approx(3000, rel=0.03)
    assert run.metrics.backpressured
    assert run.metrics.processing_latency_s is not None  # one channel in all: 1,024 tuples at 3,000 a second
    assert run.metrics.processing_latency_s.p50 == pytest.approx(1024 / 3000, rel=0.15)


def test_the_analytic_model_knows_shared_queues() -> None:
    job = pool_job(3, 0.8)
    estimate = RateModel(horizon_s=1e6).predict(job, [job.plan])
    expected = mmc_wait_s(3, 0.8, 1e-3) + 1e-3
    assert estimate["processing_latency_s"][0] == pytest.approx(expected, rel=0.05)


def test_closed_forms() -> None:
    assert erlang_c(1, 0.7) == pytest.approx(0.7)
    assert erlang_c(2, 0.5) == pytest.approx(1 / 3)
    assert mmc_wait_s(1, 0.8, 1.0) == pytest.approx(4.0)
    assert mmck_loss(1, 1, 0.8) == pytest.approx(0.8 / 1.8)
    assert mmck_loss(1, 5, 0.8) == pytest.approx(0.2 * 0.8**5 / (1 - 0.8**6))
    assert mmck_loss(2, 50, 4.0) == pytest.approx(0.5)
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
        run = simulate(Scenario.of(job, RunSettings(horizon_s=1 / servers, period_s=1, fidelity="exact", seed=seed)))
        source = [row for row in run.operator_rows if row["operator"] == "source"]
        lost, made = (sum(row[key] for row in source) for key in ("numRecordsDropped", "numRecordsOut"))
        assert not run.metrics.backpressured
        shares.append(lost / made)
    error = np.std(shares, ddof=1) / np.sqrt(len(shares))
    assert abs(np.mean(shares) - mmck_loss(servers, channel + servers, load * servers)) < 4 * error


@pytest.mark.parametrize(("load", "lost"), [(0.7, 0.0), (1.5, 1 / 3), (4.0, 3 / 4)])
@pytest.mark.parametrize("servers", [1, 3])
def test_fast_channels_drop_what_is_beyond_capacity(servers: int, load: float, lost: float) -> None:
    run = simulate(Scenario.of(pool_job(servers, load, overflow="drop"), RunSettings(horizon_s=60, warmup_s=10)))
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
    """Both ways in which a fast run deals segments: split among few replicas, and whole to one after the other."""
    middle = {"kind": "map", "name": "m", "service_time_s": 1e-3, "service_scv": 1}
    job = chain([middle], 500 * replicas, placement={"m": {"h": replicas}})
    data = job.model_dump(mode="json", exclude_none=True)
    data["cluster"]["hosts"][0]["cpu_percent"] = 6400
    job = parse(Deployment, data)
    expected = erlang_arrivals_sojourn_s(replicas, 0.5, 1e-3)
    for fidelity, seconds, error in (("exact", 24, 0.06), ("fast", 240, 0.12)):
        latency = simulate(Scenario.of(job, RunSettings(horizon_s=seconds / replicas, fidelity=fidelity, period_s=1)))
        assert latency.metrics.processing_latency_s is not None
        assert latency.metrics.processing_latency_s.mean == pytest.approx(expected, rel=error)
