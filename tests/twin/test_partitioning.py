"""Partitionings: turns among many subtasks, two choices, shared queues, channels that drop, `local` streams."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.twin.machine.runs import same_however
from tests.twin.worlds import HOST, chain, latencies_s, simulated, world_of
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.events import Migration, Scale
from twin.key_skew import zipf_shares
from twin.operators.key_groups import second_choice, settled_shares
from twin.profiles import STORM
from twin.rates.model import RateModel
from twin.rates.queueing import erlang_b, erlang_c, mmc_wait_s
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate
from twin.spec import parse
from twin.workload import contiguous


def with_stream(job: Deployment, consumer: str, **changes: Any) -> Deployment:
    """Job with some fields of the streams into `consumer` changed."""
    data = job.model_dump(mode="json", exclude_none=True)
    for each in data["query"]["streams"]:
        if each["consumer"] == consumer:
            each.update(changes)
    return parse(Deployment, data)


# who sends to whom --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["hash", "rebalance"])
def test_as_many_subtasks_as_producers_send_over_the_network(how: str) -> None:
    """With subtasks at the same four places, three of four records go elsewhere, which takes 10 ms."""
    places = [f"h{number}" for number in range(4)]
    hosts = [{**HOST, "name": name, "latency_ms": 10.0} for name in places]
    both = {"a": places, "b": places, "source": "h0", "sink": "h0"}
    middle = [{"kind": "map", "name": name, "service_time_s": 1e-4} for name in "ab"]
    job = chain(middle, 400, hosts=hosts, placement=both, partitioning={"b": how})
    latency = simulated(job, horizon_s=12, warmup_s=2, period_s=2).metrics.e2e_latency_s
    assert latency is not None and latency.mean == pytest.approx(3 * 0.75 * 10e-3, rel=0.05)


# turns --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("producers", [1, 3])
@pytest.mark.parametrize("parallelism", [2, 7, 60])
def test_records_go_in_turn_to_all_subtasks(producers: int, parallelism: int) -> None:
    """Of each producer, no subtask gets two more than another; the first record goes to the producer's own part."""
    middle = [{"kind": "map", "name": name, "service_time_s": 1e-6} for name in ("send", "take")]
    places = {"send": {"h": producers}, "take": {"h": parallelism}}
    built = world_of(chain(middle, {"law": "constant", "rate_per_s": 100.0}, placement=places))
    for end_s in (0.015, 0.505, 1.005, 7.305):
        built.advance(end_s)
        sent = np.array([inbox.sent for inbox in built.streams["send", "take"].inboxes])
        assert sent.sum() == int(100 * end_s) and sent.max() - sent.min() <= producers
        assert end_s > 0.1 or sent[0] == 1


# two choices --------------------------------------------------------------------------------------------------------


def skewed_job(how: str, rate: float = 4000.0, zipf: float = 1.0, parallelism: int = 8) -> Deployment:
    middle = {"kind": "map", "name": "m", "key_groups": 256, "service_time_s": 1e-3, "service_scv": 1}
    places = {"m": {"h": parallelism}, "sink": {"h": parallelism}}
    dealt = {"m": how, "sink": "forward"}
    return chain([middle], rate, placement=places, partitioning=dealt, keys={"m": {"zipf": zipf}})


def imbalance(job: Deployment, seconds: float = 2.0) -> float:
    """Imbalance of the records that the subtasks took: (max - mean) / mean."""
    built = world_of(job, RunSettings(horizon_s=seconds))
    built.advance(seconds)
    taken = np.array([task.records_in + task.queued for task in built.tasks["m"]])
    return float(taken.max() / taken.mean() - 1)


def test_two_choices_balance_what_hash_does_not() -> None:
    hashed, chosen = (imbalance(skewed_job(how)) for how in ("hash", "two-choice"))
    assert hashed > 0.3
    assert chosen < 0.02
    # the most frequent key group alone, over two subtasks
    beyond = zipf_shares(256, 2.0)[0] / 2 * 8 - 1
    assert imbalance(skewed_job("two-choice", zipf=2.0)) == pytest.approx(beyond, abs=0.1)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1000), parallelism=st.integers(2, 12), zipf=st.floats(0, 2))
def test_settled_shares_are_what_greedy_choice_tends_to(seed: int, parallelism: int, zipf: float) -> None:
    """Settled shares are those of 20,000 records sent one by one, each to the candidate that has got less."""
    rng = np.random.default_rng(seed)
    weights = rng.permutation(zipf_shares(4 * parallelism, zipf))
    first = contiguous(len(weights), parallelism)
    second = second_choice(first, parallelism)
    assert all(a != b for a, b in zip(first, second, strict=True))
    sent = [0] * parallelism
    for group in rng.choice(len(weights), size=20_000, p=weights):
        a, b = first[group], second[group]
        sent[a if sent[a] <= sent[b] else b] += 1
    shares = settled_shares(weights, first, second, parallelism)
    assert shares.sum() == pytest.approx(1)
    assert shares == pytest.approx(np.array(sent) / 20_000, abs=0.02)


def test_two_choice_without_key_groups_has_its_own() -> None:
    middle = {"kind": "filter", "name": "m", "selectivity": 1}
    job = chain([middle], 100, placement={"m": {"h": 20}}, partitioning={"m": "two-choice"})
    assert len(world_of(job, RunSettings()).key_groups["m"]) == 16 * 20


def test_partial_results_of_two_choices_are_twice_as_many() -> None:
    """With two choices each of 40 groups is on two candidates: up to 80 partial results a window, to be merged."""
    window = {"policy": "time", "size_s": 5.0}
    middle = {"kind": "aggregate", "name": "m", "window": window, "group_by": "int", "groups": 40, "key_groups": 40}
    for how, results in ((None, 40), ("two-choice", 80)):
        job = chain([middle], 4000, placement={"m": {"h": 4}}, partitioning={"m": how})
        found = simulated(job, horizon_s=30, warmup_s=10).metrics
        assert found.throughput_per_s == pytest.approx(results / 5, rel=0.02)


def test_two_choice_into_a_join_is_refused() -> None:
    from tests.twin.test_joins import WINDOWS, star

    with pytest.raises(BadInput, match="two-choice into join 'j' sends records that match to different subtasks"):
        with_stream(star({"a": 1, "b": 1}, WINDOWS["time"], selectivity=0.1), "j", partitioning="two-choice")


# shared queues ------------------------------------------------------------------------------------------------------


def pool_job(servers: int, load: float, channel: int | None = None, cores: int = 64, **stream: Any) -> Deployment:
    """Poisson source into a queue that `servers` subtasks share, 1,000 records a second a subtask at full load."""
    middle = {"kind": "filter", "name": "m", "selectivity": 1, "service_time_s": 1e-3, "service_scv": 1}
    job = chain(
        [middle],
        1000 * servers * load,
        hosts=[HOST | {"cpu_percent": 100 * cores}],  # a core a task, unless there are fewer
        placement={"m": {"h": servers}, "sink": {"h": servers}},
        engine=STORM.model_dump(mode="json") | ({"channel_records": channel} if channel else {}),
        partitioning={"m": "shared", "sink": "forward"},
    )
    return with_stream(job, "m", **stream)


@pytest.mark.parametrize("scv", [0.0, 1.0, 4.0])
def test_the_rate_model_knows_the_waits_in_a_common_queue(scv: float) -> None:
    """The rate model has Allen and Cunneen's waits in a common queue."""
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


def test_subtasks_of_a_shared_queue_are_used_alike() -> None:
    built = world_of(pool_job(4, 0.5), RunSettings(horizon_s=4))
    built.advance(4)
    taken = [task.records_in for task in built.tasks["m"]]
    assert max(taken) < 1.1 * min(taken)


def test_a_saturated_shared_queue_uses_all_of_its_subtasks() -> None:
    run = simulated(pool_job(3, 1.5), horizon_s=6, warmup_s=2, period_s=2)
    assert run.metrics.throughput_per_s == pytest.approx(3000, rel=0.03)
    assert run.metrics.backpressured
    assert run.metrics.processing_latency_s is not None  # one channel in all: 1,024 records at 3,000 a second
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
    with pytest.raises(BadInput, match=r"placement\.m: subtasks that take from a shared queue must be on one host"):
        parse(Deployment, data)


# channels that drop -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("servers", "load", "channel"), [(1, 0.8, 4), (1, 1.5, 4), (1, 0.95, 12), (3, 0.9, 2)])
def test_lost_share_of_an_exact_channel_is_that_of_m_m_c_k(servers: int, load: float, channel: int) -> None:
    """The lost share is that of M/M/c/K, where K is the channel and the records in service."""
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


# in turn ------------------------------------------------------------------------------------------------------------


def erlang_arrivals_sojourn_s(parallelism: int, load: float, service_s: float) -> float:
    """Mean time in an E_k/M/1 queue: a subtask that gets every k-th record of a Poisson stream."""
    share = 0.5
    for _ in range(200):
        share = (parallelism * load / (parallelism * load + 1.0 - share)) ** parallelism
    return service_s / (1.0 - share)


@pytest.mark.parametrize("parallelism", [2, 4, 8, 12])
def test_subtasks_served_in_turn_are_e_k_m_1_queues(parallelism: int) -> None:
    """A subtask that gets every K-th record of a Poisson stream is an E_K/M/1 queue."""
    middle = {"kind": "map", "name": "m", "service_time_s": 1e-3, "service_scv": 1}
    job = chain([middle], 500 * parallelism, hosts=[HOST | {"cpu_percent": 6400}], placement={"m": {"h": parallelism}})
    expected = erlang_arrivals_sojourn_s(parallelism, 0.5, 1e-3)
    latency = simulated(job, horizon_s=24 / parallelism, period_s=1)
    assert latency.metrics.processing_latency_s.mean == pytest.approx(expected, rel=0.06)


RATE_PER_S, LATENCY_S, SERVICE_S = 600.0, 10e-3, 1e-3
RUN = RunSettings(horizon_s=20.0, warmup_s=2.0, period_s=2.0)
JOBS = {
    "on every host": ({"a": 1, "b": 1, "c": 1}, {"a": 1, "b": 1, "c": 1}),
    "several each": ({"a": 2, "b": 2}, {"a": 2, "b": 2}),
    "crowded on one": ({"a": 3, "b": 1}, {"a": 1, "b": 3}),
    "some have none": ({"a": 1, "b": 1, "c": 1}, {"a": 2, "b": 1}),
    "nobody near": ({"a": 2}, {"b": 1, "c": 1}),
}


def job(sends: dict[str, int], takes: dict[str, int]) -> Deployment:
    """Job source -> send (spread evenly) -> take, by local -> sink."""
    work = [{"kind": "map", "name": n, "service_time_s": SERVICE_S, "service_scv": 1} for n in ("send", "take")]
    hosts = [{**HOST, "name": name, "latency_ms": 1e3 * LATENCY_S} for name in "abc"]
    places = {"source": "a", "send": sends, "take": takes, "sink": "a"}
    how = {"take": "local"}
    return chain(work, RATE_PER_S, hosts=hosts, placement=places, partitioning=how)


def by_hand(sends: dict[str, int], takes: dict[str, int]) -> tuple[np.ndarray, float]:
    """Share of the stream by consumer subtask, and share that crosses the network."""
    froms = [host for host, count in sends.items() for _ in range(count)]
    tos = [host for host, count in takes.items() for _ in range(count)]
    shares, crossing = np.zeros(len(tos)), 0.0
    for start in froms:
        near = [k for k, host in enumerate(tos) if host == start]
        for k in near or range(len(tos)):
            shares[k] += 1.0 / len(froms) / len(near or tos)
        crossing += 0.0 if near else 1.0 / len(froms)
    return shares, crossing


@pytest.mark.parametrize("name", JOBS)
def test_records_stay_on_their_host_where_they_can(name: str) -> None:
    """Subtasks' shares and the latency of records that cross hosts are as counted by hand."""
    sends, takes = JOBS[name]
    made, (shares, crossing) = job(sends, takes), by_hand(sends, takes)
    world = world_of(made, RUN)
    world.advance(RUN.horizon_s)
    taken = np.array([task.records_in for task in world.tasks["take"]])
    assert taken / taken.sum() == pytest.approx(shares, abs=0.02)
    scenario = Scenario.of(made, RUN)
    away = [1.0 - sends.get("a", 0) / sum(sends.values()), crossing, 1.0 - shares[: takes.get("a", 0)].sum()]
    way_s = LATENCY_S * sum(away)
    service_s = SERVICE_S * sum(
        sum(part / (1.0 - RATE_PER_S * part * SERVICE_S) for part in parts)
        for parts in (shares, [1.0 / sum(sends.values())] * sum(sends.values()))
    )
    answer = RateModel().answer(scenario, [made.plan])
    said = answer.costs["processing_latency_s"][0]
    runs = [simulate(scenario.with_run(seed=seed)).metrics.value("processing_latency_s") for seed in range(3)]
    assert np.mean(runs) == pytest.approx(way_s + service_s, rel=0.05)
    assert said == pytest.approx(np.mean(runs), rel=0.08)
    busiest = RATE_PER_S * SERVICE_S * max(*shares, 1.0 / sum(sends.values()))
    assert answer.offered_pressure.max() == pytest.approx(busiest, rel=0.01)


def test_dealing_is_the_same_however_code_runs() -> None:
    same_however(Scenario.of(job(*JOBS["some have none"]), RunSettings(horizon_s=5.0, warmup_s=1.0, period_s=1.0)))


def test_who_is_near_does_not_change_while_the_job_runs() -> None:
    made = job(*JOBS["several each"])
    for operator, remedy in (("take", "which is wired for the hosts"), ("send", "cannot move; use rebalance")):
        move = Migration(kind="migration", at_s=1, operator=operator, subtask=0, to="c")
        with pytest.raises(BadInput, match=remedy):
            Scenario.of(made, RUN, events=[move])
    for operator, remedy in (("take", "fixes its subtasks"), ("send", "feeds a local stream")):
        scale = Scale(kind="scale", at_s=1, operator=operator, placement=("a", "b", "c"))
        with pytest.raises(BadInput, match=remedy):
            Scenario.of(made, RUN, events=[scale])
