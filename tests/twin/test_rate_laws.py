"""Rate model's laws of records that come together, unevenly, or to tasks that share cores: theory and brute force."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tests.twin.test_rate_batches import FREE, job, predict
from tests.twin.worlds import dealt, placed
from twin.deployment import Deployment
from twin.key_skew import KeySkew, zipf_shares
from twin.kinds.flow import HeldRecords, KeySpread, group_age_s, older_by_input_s
from twin.kinds.operator import beside
from twin.profiles import STORM
from twin.query import Aggregate, Join, Map, Query, Sink, Source, Stream, TimeWindow
from twin.rates.model import RateModel
from twin.rates.queueing import cores_beside, mmc_wait_s, shared_wait_s
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate
from twin.workload import Constant, Poisson, Workload


def exact(deployment: Deployment, seed: int = 1, horizon_s: float = 15.0) -> object:
    settings = RunSettings(horizon_s=horizon_s, warmup_s=3.0, period_s=3.0, seed=seed)
    return simulate(Scenario.of(deployment, settings)).metrics


# windows ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("records", "bursts"), [(0.2, None), (1.5, None), (8.0, None), (0.5, 4), (3.0, 4), (3.0, 1)])
def test_the_oldest_of_a_group_is_brute_force(records, bursts):
    """The age of the oldest of Poisson records in a group, evenly over a window or in bursts, is that of brute
    force."""
    rng = np.random.default_rng(0)
    counts = rng.poisson(records, 200_000)
    counts = counts[counts > 0]
    came_s = rng.random((len(counts), counts.max()))
    came_s = came_s if bursts is None else np.floor(came_s * bursts) / bursts
    came_s[np.arange(counts.max()) >= counts[:, None]] = 1.0
    ages_s = 1.0 - came_s.min(axis=1)
    every = None if bursts is None else np.array([float(bursts)])
    held = HeldRecords(np.array([1.0]), np.array([counts.mean()]), np.ones(1), bursts_per_s=every)
    law_s = group_age_s(TimeWindow(size_s=1.0), held)[0]
    assert abs(ages_s.mean() - law_s) < 4 * ages_s.std() / np.sqrt(len(ages_s)) + 1e-5


@pytest.mark.parametrize("records", [(0.3, 0.2), (2.0, 0.5), (6.0, 0.05, 1.0)])
@pytest.mark.parametrize("late_s", [0.0, 0.4, 20.0])
def test_the_oldest_of_a_group_from_several_inputs_is_brute_force(records, late_s):
    """Of Poisson records of several inputs, each with a delay of its own, the oldest is as old as by brute force."""
    rng, delays = np.random.default_rng(0), np.arange(len(records)) * late_s
    counts = rng.poisson(records, (200_000, len(records)))
    some = counts.sum(axis=1) > 0
    first = rng.beta(1.0, np.maximum(counts, 1))  # of that many times in the window, the first
    ages_s = np.where(counts > 0, 1.0 - first + delays, -np.inf).max(axis=1)[some]
    rates, arriving = np.array(records)[:, None], delays[:, None]
    held = HeldRecords(rates.sum(axis=0), counts.sum(axis=1)[some].mean(keepdims=True), np.ones(1), by_input=rates)
    mixed, window = (rates * arriving).sum(axis=0) / rates.sum(), TimeWindow(size_s=1.0)
    law_s = (mixed + group_age_s(window, held) + older_by_input_s(window, arriving, mixed, held))[0]
    assert abs(ages_s.mean() - law_s) < 4 * ages_s.std() / np.sqrt(len(ages_s)) + 1e-4


def test_results_leave_when_their_evaluation_ends():
    """Results leave at the end of their evaluation: 5 ms for each of 20 groups are 0.1 s of a window of 1 s."""
    cheap = STORM.record_us.model_copy(update={"aggregate": 1.0})
    free = STORM.value_us.model_copy(update={"ints": 0.0, "doubles": 0.0})
    engine = STORM.model_copy(
        update={"name": "dear", "record_us": cheap, "value_us": free, "result_us": 5000.0, "scan_us": 0.0}
    )
    total = Aggregate(name="sum", window=TimeWindow(size_s=1.0), group_by="int", groups=20)
    found = job(Source(name="in", **FREE), total, Sink(name="out", **FREE), rate_per_s=400.0, engine=engine)
    said = predict(found)["processing_latency_s"][0]
    runs = np.array([exact(found, seed).processing_latency_s.mean for seed in range(6)])
    assert said == pytest.approx(1.0 - 1.0 / 20.0 + 0.1, abs=2e-3)
    assert abs(runs.mean() - said) < 4 * runs.std(ddof=1) / np.sqrt(len(runs))


# what comes together ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("made", [0.3, 1.0, 2.5, 40.0])
def test_others_made_with_a_record_are_brute_force(made):
    sizes = np.floor(made) + (np.random.default_rng(0).random(200_000) < made % 1)
    assert float(beside(made)) == pytest.approx((sizes * (sizes - 1)).sum() / sizes.sum(), rel=0.02, abs=1e-9)


@pytest.mark.parametrize(
    ("parallelism", "way", "others"), [(1, "rebalance", 9.0), (4, "rebalance", 1.6), (4, "hash", 2.25)]
)
def test_what_a_record_makes_waits_for_itself(parallelism, way, others):
    """A record's results wait for each other as in M^[b]/G/1, (b - 1) s / (2 (1 - rho)); of 10 dealt to four, 2 or
    3."""
    service_s, rate_per_s = 1e-3, 50.0 * parallelism
    work = Map(name="work", service_time_s=service_s, service_scv=1.0)
    many = Map(name="many", selectivity=10.0, **FREE)
    lumpy = job(Source(name="in", **FREE), many, work, Sink(name="out", **FREE), rate_per_s=rate_per_s, engine=STORM)
    lumpy = dealt(placed(lumpy, work=("h",) * parallelism), work=way)
    answer = RateModel(1e5).answer(lumpy, [lumpy.plan])
    used = answer.busy_cores[0, 2]
    assert used == pytest.approx(0.5, rel=0.05)
    own_s = used / (1.0 - used) * answer.service_s[0, 2]
    lumps_s = others * answer.service_s[0, 2] / (2.0 * (1.0 - used))
    assert answer.line_s[0, 2] == pytest.approx(own_s + lumps_s, rel=0.02)


def test_small_batches_behind_batches_are_seldom_in_step():
    """Batches of 5 that fill those of 10 wait as if they came evenly, as flushes come between."""
    source, work = Source(name="in", record_bytes=6000), Map(name="work", record_bytes=3000, service_time_s=5e-4)
    large = job(source, work, Sink(name="out"), rate_per_s=800.0, parallelism=4)
    found, measured = predict(large)["processing_latency_s"][0], exact(large).processing_latency_s.mean
    assert found == pytest.approx(measured, rel=0.12)


# keys -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("places", [1.0, 2.0, np.inf])
def test_distinct_groups_of_skewed_keys_are_brute_force(places):
    """Distinct Zipf groups, each on `places` of 4 subtasks, are those of brute force; strata are of equal groups."""
    shares, parallelism, content = zipf_shares(8, 1.2), 4, 300
    rng = np.random.default_rng(0)
    copies = int(min(places, parallelism))
    drawn = [
        (rng.choice(8, content, p=shares), rng.integers(0, 25, content), rng.integers(0, copies, content))
        for _ in range(300)
    ]
    counts = [len(np.unique((group * 25 + value) * 4 + copy)) for group, value, copy in drawn]
    spread = KeySpread(shares, np.full(8, 25.0), places)
    assert spread.distinct(np.array([float(content)]), float(parallelism))[0] == pytest.approx(
        np.mean(counts), rel=0.02
    )


@pytest.mark.parametrize(("way", "results"), [("rebalance", 4), ("global", 1)])
def test_each_subtask_of_an_ungrouped_window_has_a_result(way, results):
    window = Aggregate(name="sum", window=TimeWindow(size_s=0.5))
    whole = job(Source(name="in"), window, Sink(name="out"), rate_per_s=400.0, engine=STORM)
    whole = dealt(placed(whole, sum=("h",) * 4), sum=way)
    assert predict(whole, 1e4)["throughput_per_s"][0] == pytest.approx(2.0 * results, rel=0.01)


def test_results_of_windows_wait_for_the_end_of_the_next():
    """Results of a window come when the next one's has just begun, so they are as old as two windows, however few."""
    windows = [Aggregate(name=n, window=TimeWindow(size_s=0.5), group_by="int", groups=40) for n in ("part", "whole")]
    twice = job(Source(name="in"), *windows, Sink(name="out"), rate_per_s=400.0, engine=STORM)
    answer = RateModel(1e4).answer(twice, [twice.plan])
    assert answer.window_s[0, 2] == pytest.approx(0.5)
    assert answer.costs["processing_latency_s"][0] == pytest.approx(exact(twice).processing_latency_s.mean, rel=0.05)


@pytest.fixture(scope="module")
def hot() -> Deployment:
    """Job in which one of four subtasks gets two thirds of the records, can take 0.8 of them, and has 4 of 16 key
    groups."""
    window = Aggregate(
        name="sum", window=TimeWindow(size_s=1.0), group_by="int", groups=800, key_groups=16, service_time_s=1e-3
    )
    keyed = job(Source(name="in"), window, Sink(name="out"), rate_per_s=1_800.0, engine=STORM)
    skew = KeySkew(shares=tuple([50.0, 5.0, 5.0, 5.0] + [2.5] * 12))
    workload = keyed.workload.model_copy(update={"keys": {"sum": skew}})
    return placed(keyed.model_copy(update={"workload": workload}), sum=("h",) * 4)


def test_a_hot_subtask_holds_the_source_back_for_all(hot):
    found, measured = predict(hot, 60.0), exact(hot, horizon_s=40.0)
    assert measured.backpressured and found["backpressured"][0] > 0.5
    assert found["throughput_per_s"][0] == pytest.approx(measured.throughput_per_s, rel=0.05)


def test_copies_of_a_broadcast_are_work_and_results(hot):
    work = Map(name="work", service_time_s=1.5e-3)
    copied = job(Source(name="in", **FREE), work, Sink(name="out", **FREE), rate_per_s=500.0, engine=STORM)
    copied = dealt(placed(copied, work=("h",) * 3), work="broadcast")
    answer = RateModel(1e4).answer(copied, [copied.plan])
    assert answer.costs["throughput_per_s"][0] == pytest.approx(1_500.0, rel=1e-3)
    assert answer.busy_cores[0, 1] == pytest.approx(500.0 * answer.service_s[0, 1], rel=1e-6)


def test_a_join_whose_bursts_drain_before_the_next_keeps_up():
    """A join keeps up whose bursts, 3,750 results of 1 ms each 5 s, drain before the next; bursts differ by 8 %."""
    sources = [Source(name=name, **FREE) for name in ("fast", "slow")]
    match = Join(name="match", window=TimeWindow(size_s=5.0), key_type="int", selectivity=0.03)
    chain = job(
        sources[0], Map(name="match", **FREE), Sink(name="out", service_time_s=1e-3), rate_per_s=1.0, engine=STORM
    )
    both = Deployment(
        query=Query(
            operators=(*sources, match, chain.query.operators[-1]),
            streams=(*chain.query.streams, Stream(producer="slow", consumer="match")),
        ),
        cluster=chain.cluster,
        plan=chain.plan.with_placement({**chain.plan.placement, "slow": ("h",)}),
        workload=Workload(arrivals={"fast": Poisson(rate_per_s=100.0), "slow": Poisson(rate_per_s=50.0)}),
        engine=STORM,
    )
    answer, run = predict(both, 1e5), exact(both, horizon_s=120.0)
    assert not run.backpressured and answer["backpressured"][0] < 0.5
    assert answer["throughput_per_s"][0] == pytest.approx(750.0, rel=0.01)


# gaps and cores -------------------------------------------------------------------------------------------------------


def test_behind_constant_services_gaps_are_more_regular_the_busier_they_are():
    """Behind M/D/1, gaps vary by 1 - rho^2 (Whitt), and waits are as much shorter (Kingman)."""
    works = [Map(name=f"work{k}", service_time_s=1e-3, service_scv=0.0) for k in range(2)]
    chain = job(Source(name="in", **FREE), *works, Sink(name="out", **FREE), rate_per_s=940.0, engine=STORM)
    answer = RateModel(1e5).answer(chain, [chain.plan])
    assert answer.line_s[0, 2] == pytest.approx((1.0 - answer.busy_cores[0, 1] ** 2) * answer.line_s[0, 1])


@pytest.mark.parametrize(("cores", "parallelism"), [(0.5, 2), (1.0, 4), (1.5, 2), (2.0, 4)])
@pytest.mark.parametrize("load", [0.5, 0.8])
def test_subtasks_that_share_cores_wait_for_each_other(cores, parallelism, load):
    """Without collisions of subtasks that share cores, predictions are a third too short; two are 12 % off."""
    work = Map(name="work", service_time_s=1e-3, service_scv=0.5)
    rate = load * cores / 1e-3
    shared = job(Source(name="in", **FREE), work, Sink(name="out", **FREE), rate_per_s=rate, engine=STORM, cores=cores)
    shared = placed(shared, work=("h",) * parallelism)
    runs = [exact(shared, seed).processing_latency_s.mean for seed in (1, 2, 3)]
    assert predict(shared, 30.0)["processing_latency_s"][0] == pytest.approx(np.mean(runs), rel=0.13)


def pipeline(services_s: tuple[float, ...], load: float, scv: float, cores: float, law: type = Poisson) -> Deployment:
    """Job of operators in a row that share cores, of which they need a part."""
    works = [Map(name=f"work{k}", service_time_s=each, service_scv=scv) for k, each in enumerate(services_s)]
    rate = load * cores / sum(services_s)
    made = job(Source(name="in", **FREE), *works, Sink(name="out", **FREE), rate_per_s=rate, engine=STORM, cores=cores)
    return made.model_copy(update={"workload": Workload(arrivals={"in": law(rate_per_s=rate)})})


def test_exponential_services_on_one_core_take_as_long_as_with_processor_sharing():
    """On one core each operator takes s / (1 - rho) of the whole load (Baskett and others, 1975), as in runs."""
    made = pipeline((1e-3, 2e-3, 1e-3), 0.7, 1.0, 1.0)
    found = RateModel(1e5).answer(made, [made.plan])
    assert found.queue_s[0, 1:4] == pytest.approx(np.array([1e-3, 2e-3, 1e-3]) / 0.3, rel=0.01)
    runs = [exact(made, seed, 60.0).processing_latency_s.mean for seed in range(4)]
    assert found.queue_s[0].sum() == pytest.approx(np.mean(runs), rel=0.08)


@pytest.mark.parametrize("services_s", [(1e-3, 1e-3), (1e-3, 3e-3, 2e-3)])
def test_constant_services_on_one_core_wait_as_in_runs(services_s):
    """Constant services on one core wait as in runs: more regular gaps are no fewer visits to the socket."""
    made = pipeline(services_s, 0.8, 0.0, 1.0)
    runs = [exact(made, seed, 60.0).processing_latency_s.mean for seed in range(6)]
    assert predict(made, 60.0)["processing_latency_s"][0] == pytest.approx(np.mean(runs), rel=0.1)


def test_parts_of_an_operator_are_one_operator():
    """Two hardly uneven subtasks on one core, of constant arrivals, wait as even ones."""
    work = Map(name="work", service_time_s=1e-3, service_scv=1.0, key_groups=2)
    even = job(Source(name="in", **FREE), work, Sink(name="out", **FREE), rate_per_s=800.0, engine=STORM, cores=1.0)
    even = placed(even, work=("h", "h"))

    def keyed(*shares: float) -> float:
        workload = Workload(arrivals={"in": Constant(rate_per_s=800.0)}, keys={"work": KeySkew(shares=shares)})
        return float(predict(even.model_copy(update={"workload": workload}), 200.0)["processing_latency_s"][0])

    assert keyed(0.5001, 0.4999) == pytest.approx(keyed(0.5, 0.5), rel=0.02)


@pytest.mark.parametrize("load", [0.5, 0.9])
def test_constant_visits_of_constant_work_never_meet(load):
    """Constant visits never meet: the next comes when all of the last is done, however many operators share a core."""
    made = pipeline((1e-3, 2e-3, 1e-3), load, 0.0, 1.0, Constant)
    assert predict(made, 30.0)["processing_latency_s"][0] == pytest.approx(4e-3, rel=0.01)
    assert exact(made).processing_latency_s.mean == pytest.approx(4e-3, rel=0.01)


def test_as_many_tasks_as_cores_disturb_nobody():
    few, own = (pipeline((1e-3, 1e-3), 0.8, 1.0, 2.0), pipeline((1e-3, 1e-3), 0.4, 1.0, 4.0))
    assert predict(few, 200.0)["processing_latency_s"] == pytest.approx(predict(own, 200.0)["processing_latency_s"])


def test_half_a_core_is_a_core_at_half_the_speed():
    half, whole = (
        placed(
            job(
                Source(name="in", **FREE),
                Map(name="work", service_time_s=each_s, service_scv=1.0),
                Sink(name="out", **FREE),
                rate_per_s=400.0,
                engine=STORM,
                cores=cores,
            ),
            work=("h",) * 3,
        )
        for cores, each_s in ((0.5, 1e-3), (1.0, 2e-3))
    )
    found_s = predict(half, 200.0)["processing_latency_s"][0]
    assert found_s == pytest.approx(predict(whole, 200.0)["processing_latency_s"][0], rel=1e-9)


@pytest.mark.parametrize("cores", [1, 2, 4, 16])
def test_the_time_on_shared_cores_is_erlangs(cores):
    busy = np.array([0.3, 0.8, 0.95]) * cores
    waits = [mmc_wait_s(cores, used / cores, 1.0) for used in busy]
    assert shared_wait_s(np.array(float(cores)), busy) == pytest.approx(waits, rel=1e-9)


@pytest.mark.parametrize(
    ("cores", "others"), [(1.0, [0.3, 0.2]), (1.5, [0.6]), (2.5, [0.7, 0.4, 0.4, 0.1]), (3.0, [0.9] * 3)]
)
def test_others_do_what_they_need_beside_one_that_is_always_busy(cores, others):
    """Beside a busy task others get what they need, and it gets the mean over all subsets of busy others."""
    found = float(cores_beside(np.array([cores]), np.array(others)[:, None], np.ones((len(others), 1)))[0])
    busy = np.array(list(product([0.0, 1.0], repeat=len(others))))

    def means(speed: float) -> tuple[float, float]:
        """Means of what all others do, and of what the one gets, if others get `speed` while they are busy."""
        chance = np.minimum(np.array(others) / speed, 1.0)
        weight = np.prod(busy * chance + (1 - busy) * (1 - chance), axis=1)
        each = np.minimum(1.0, cores / (1.0 + busy.sum(axis=1)))
        return float(weight @ (busy.sum(axis=1) * each)), float(weight @ each)

    speeds = np.linspace(cores / (1.0 + len(others)), 1.0, 4001)
    beyond = [means(speed)[0] - sum(others) for speed in speeds]
    assert found == pytest.approx(means(speeds[int(np.argmin(np.abs(beyond)))])[1], abs=2e-3)
    if cores == 1.0:
        assert found == pytest.approx(1.0 - sum(others), rel=1e-3)
    if len(others) == 1:
        assert found == pytest.approx(1.0 - others[0] / 3.0, rel=1e-3)


def together(cores: float, **works: tuple[float, float]) -> Deployment:
    """Job of separate chains on one host: by name, service time and rate."""
    first, *others = (
        job(
            Source(name=f"{name}-in", **FREE),
            Map(name=name, service_time_s=each_s),
            Sink(name=f"{name}-out", **FREE),
            rate_per_s=rate,
            engine=STORM,
            cores=cores,
        )
        for name, (each_s, rate) in works.items()
    )
    for other in others:
        query = Query(
            operators=first.query.operators + other.query.operators, streams=first.query.streams + other.query.streams
        )
        plan = first.plan.with_placement({**first.plan.placement, **other.plan.placement})
        workload = Workload(arrivals={**first.workload.arrivals, **other.workload.arrivals})
        first = first.model_copy(update={"query": query, "plan": plan, "workload": workload})
    return first


@pytest.mark.parametrize(("light_per_s", "cores"), [(60.0, 1.5), (120.0, 1.5), (60.0, 1.2)])
def test_a_heavy_subtask_gets_less_than_a_light_one_leaves(light_per_s, cores):
    """A heavy subtask gets less than the fluid limit of all that the light one leaves, at most a core."""
    both = together(cores, heavy=(0.01, 150.0), light=(0.005, light_per_s))
    runs = np.array([exact(both, seed, horizon_s=60.0).throughput_per_s for seed in range(4)])
    said = predict(both, 60.0)["throughput_per_s"][0]
    assert abs(runs.mean() - said) < 4 * runs.std(ddof=1) / np.sqrt(len(runs)) + 0.02 * said
    fluid = light_per_s + min(cores - 0.005 * light_per_s, 1.0) / 0.01
    assert said < 0.97 * fluid


def test_a_light_subtask_does_not_feel_what_a_heavy_one_is_offered_too_much():
    """An overloaded subtask does not slow a light one that has a core of its own."""
    both = together(2.0, light=(0.01, 70.0), heavy=(0.01, 500.0))
    answer = RateModel(60.0).answer(both, [both.plan])
    pressure = dict(zip(answer.operators, answer.offered_pressure[0], strict=True))
    assert (pressure["light"], pressure["heavy"]) == pytest.approx((0.7, 5.0))


def test_what_was_dealt_and_meets_again_is_what_it_was():
    """Poisson arrivals dealt to three quick subtasks wait for one slow one as if they came to it directly."""
    ends = Source(name="in", **FREE), Sink(name="out", **FREE)
    slow = Map(name="slow", service_time_s=2e-3)
    whole = job(ends[0], slow, ends[1], rate_per_s=400.0, engine=STORM)
    dealt_first = job(ends[0], Map(name="quick", service_time_s=1e-6), slow, ends[1], rate_per_s=400.0, engine=STORM)
    dealt_first = placed(dealt_first, quick=("h",) * 3)
    waits = [RateModel(1e5).answer(each, [each.plan]).queue_s[0, -2] for each in (whole, dealt_first)]
    assert waits[1] == pytest.approx(waits[0], rel=0.01)


@pytest.mark.parametrize("made", [2, 5])
def test_of_batches_at_regular_gaps_only_those_of_one_wait_for_each_other(made):
    """In D^[b]/D/1 a record waits (b - 1) / 2 services on average."""
    ends = Source(name="in", **FREE), Sink(name="out", **FREE)
    each = Map(name="each", service_time_s=1e-3, service_scv=0.0)
    several = Map(name="several", service_time_s=1e-6, service_scv=0.0, selectivity=made)
    found = job(ends[0], several, each, ends[1], rate_per_s=700.0 / made, engine=STORM)
    arrivals = {"in": Constant(rate_per_s=700.0 / made)}
    found = found.model_copy(update={"workload": found.workload.model_copy(update={"arrivals": arrivals})})
    answer = RateModel(1e5).answer(found, [found.plan])
    assert answer.queue_s[0, 2] == pytest.approx((1.0 + (made - 1) / 2.0) * answer.service_s[0, 2], rel=0.01)


def test_constant_arrivals_find_nobody_before_them():
    steady = job(
        Source(name="in", service_time_s=1e-3, service_scv=0.0), Sink(name="out"), rate_per_s=700.0, engine=STORM
    )
    workload = steady.workload.model_copy(update={"arrivals": {"in": Constant(rate_per_s=700.0)}})
    steady = steady.model_copy(update={"workload": workload})
    costs = predict(steady, 1e4)
    assert costs["e2e_latency_s"][0] == pytest.approx(costs["processing_latency_s"][0], rel=1e-6)
