"""RLAS and the placements it is compared with: the loads of their plans, and their limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizers.interface import Problem, Solution, Status, traits_of
from optimizers.numa.baselines import fitted, scattered, spread
from optimizers.numa.rlas import Rlas
from optimizers.numa.space import SocketSpace, improved, load_bound, pressed
from optimizers.numa.tree import Heuristics, Placed, in_proportion, mean_times, proportioned, scaled
from optimizers.registry import OPTIMIZERS
from optimizers.selection import estimate
from optimizers.space import as_plans
from scenarios.planning.bench import SimulatedCostModel
from tests.optimizers.claimed_jobs import claimed_job, every_plan
from tests.optimizers.numa_jobs import deployment, every_placement, small_jobs
from tests.twin.worlds import HOST, dealt, sink, source
from tests.twin.worlds import deployment as literal
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.metrics import CostModel, Estimates
from twin.plan import ExecutionPlan
from twin.randomness import random_stream
from twin.rates.model import RateModel
from twin.rates.numa_rates import NumaJob, most_results_per_s, resource_uses, source_shares, sustained
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate

ON_SOCKETS = tuple(name for name, each in OPTIMIZERS.items() if traits_of(each).objective == "throughput_per_s")
CHAIN = [(0, 1), (1, 2), (2, 3)]
NEAR_FAR = [[0, 100, 400, 400], [100, 0, 400, 400], [400, 400, 0, 100], [400, 400, 100, 0]]


def four_sockets(rate_per_s: float = 1e8) -> Deployment:
    return deployment([0.3, 1.2, 0.8, 0.2], CHAIN, [4, 4, 4, 4], NEAR_FAR, rate_per_s=rate_per_s, gains=[1, 2, 1, 1])


def everything(job: NumaJob) -> SocketSpace:
    return SocketSpace.everything(len(job.operators), len(job.locations))


def _placed(job: NumaJob, subtasks_o: np.ndarray) -> Placed:
    counts_ol = Rlas().placed(job, subtasks_o)
    return Placed(counts_ol, float(sustained(job, counts_ol[None]).load_n[0]))


def problem(job: Deployment, **more: object) -> Problem:
    asked = {"scenario": Scenario.of(job), "cost_model": RateModel(), "objective": "throughput_per_s"}
    return Problem(**asked | more)  # type: ignore[arg-type]


def load_of(job: Deployment, plan: ExecutionPlan) -> float:
    model = NumaJob(job)
    return float(sustained(model, model.counts_of(plan)[None]).load_n[0])


@cache
def load_on_four_sockets(name: str = "rlas") -> float:
    job = four_sockets()
    return load_of(job, OPTIMIZERS[name].solve(problem(job)).plan)


def test_it_bears_more_than_whoever_weighs_no_distances() -> None:
    best = load_on_four_sockets()
    assert best <= load_bound(NumaJob(four_sockets())) * (1 + 1e-9)
    for name in ON_SOCKETS:
        assert load_on_four_sockets(name) <= best * (1 + 1e-9), name


def test_none_of_many_random_plans_is_better() -> None:
    job = NumaJob(four_sockets())
    plans = np.array([scattered(job, 16, random_stream(seed, "plans")) for seed in range(500)])
    assert sustained(job, plans).load_n.max() < load_on_four_sockets()


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(small=small_jobs())
def test_its_heuristic_placement_is_close_to_brute_force(small: tuple[Deployment, np.ndarray]) -> None:
    """Heuristic placement with local search is close to brute force; `benchmarks` measures how close."""
    job, subtasks_o = NumaJob(small[0]), small[1]
    names = [operator.name for operator in small[0].query.operators]
    counts = dict(zip(job.operators, subtasks_o.tolist(), strict=True))
    plan = small[0].plan.model_copy(update={"placement": {name: ("h",) * counts[name] for name in names}})
    best = float(sustained(job, np.array(list(every_placement(job, subtasks_o)))).load_n.max())
    given = small[0].with_plan(plan)
    assert load_of(given, Rlas(scale=False).solve(problem(given)).plan) >= 0.8 * best


@settings(max_examples=25, deadline=None)
@given(small=small_jobs(), scale=st.booleans())
def test_improving_never_makes_worse_and_keeps_to_the_limit(small: tuple[Deployment, np.ndarray], scale: bool) -> None:
    job, subtasks_o = NumaJob(small[0]), small[1]
    counts_ol = spread(job.cores_l, subtasks_o, random_stream(1, "start"))
    most = int(subtasks_o.sum()) + 2
    found, _ = improved(job, counts_ol, most, everything(job), steps=30, scale=scale)
    before, after = sustained(job, np.array([counts_ol, found])).load_n
    assert after >= before * (1 - 1e-5)
    assert found.min() >= 0 and (found.sum(axis=1) >= 1).all() and found.sum() <= most
    assert scale or (found.sum(axis=1) == subtasks_o).all()


def test_a_job_that_one_socket_can_take_is_proved_and_not_scaled() -> None:
    found = Rlas().solve(problem(four_sockets(1000.0)))
    assert found.status is Status.OPTIMAL and not found.message and found.gap == pytest.approx(0, abs=1e-3)
    assert all(len(places) == 1 for places in found.plan.placement.values())


@pytest.mark.parametrize("share", [None, 0.5])
def test_scaling_widens_the_bottleneck_nearest_to_the_sink(share: float | None) -> None:
    """Scaling widens the bottleneck nearest to the sink, from one subtask each (as in the paper) or by needs."""
    job = NumaJob(four_sockets())
    seen: list[np.ndarray] = []

    def place(subtasks_o: np.ndarray) -> Placed:
        seen.append(subtasks_o)
        counts_ol = fitted(job, subtasks_o, turn=False)
        return Placed(counts_ol, float(sustained(job, counts_ol[None]).load_n[0]))

    first_o = None if share is None else in_proportion(job, 16, everything(job), share)
    loads = [placed.load for placed in scaled(job, place, 16, everything(job), first_o=first_o)]
    assert (seen[0] == (1 if first_o is None else first_o)).all()
    for earlier, later in pairwise(seen):
        assert (later >= earlier).all() and (later > earlier).sum() == 1
    assert seen[-1].sum() <= 16 and max(loads) > (3 if share is None else 1.2) * loads[0]


@settings(max_examples=40, deadline=None)
@given(small=small_jobs(), most=st.integers(1, 60), rate=st.sampled_from([1.0, 1e6, 1e8]))
def test_subtasks_in_proportion_are_enough_or_as_many_as_there_may_be(small: Any, most: int, rate: float) -> None:
    document = small[0].model_dump(mode="json")
    document["workload"]["arrivals"]["op0"]["rate_per_s"] = rate
    job = NumaJob(Deployment.model_validate(document))
    found_o = in_proportion(job, most, everything(job))
    needed_o = job.in_o * job.time_o / job.speed_l.max()
    assert (found_o >= 1).all() and found_o.sum() <= max(most, len(found_o))
    assert (found_o >= needed_o - 1e-6).all() or found_o.sum() >= min(most, np.ceil(needed_o).sum()) - len(found_o)


def test_subtasks_settle_in_proportion_to_what_records_take_where_they_are() -> None:
    """Subtasks settle by times that include fetching, though only execution times are known at first."""
    far = [[0.0 if one == other else 600.0 for other in range(4)] for one in range(4)]
    job = NumaJob(deployment([0.3, 1.2, 0.8, 0.2], CHAIN, [18] * 4, far, rate_per_s=1e8, gains=[1, 2, 1, 1]))
    found = list(proportioned(job, lambda subtasks_o: _placed(job, subtasks_o), 72, everything(job)))
    assert all(placed.counts_ol.sum() <= 72 for placed in found)
    best = max(found, key=lambda placed: placed.load)
    assert best.load > 1.1 * found[0].load
    each_o = job.in_o * mean_times(job, best.counts_ol) / best.counts_ol.sum(axis=1)
    assert each_o.max() < 1.5 * each_o.min()
    first_o = job.in_o * mean_times(job, found[0].counts_ol) / found[0].counts_ol.sum(axis=1)
    assert first_o.max() > 1.5 * first_o.min()


@pytest.mark.parametrize("seed", [4, 5])
def test_where_there_is_no_time_first_fit_is_a_candidate(seed: int) -> None:
    asked = replace(problem(claimed_job(seed, on_sockets=True)), seconds=1e-9)
    job = NumaJob(asked.deployment)
    quick_ol = fitted(job, in_proportion(job, int(job.cores_l.sum()), everything(job)), turn=False)
    at_least = estimate(asked, as_plans(asked.deployment, quick_ol[None].astype(int))).objective[0]
    assert OPTIMIZERS["rlas"].solve(asked).objective >= at_least * (1.0 - 0.02)  # of as good ones the calmest is taken


@pytest.mark.parametrize("name", ON_SOCKETS)
@pytest.mark.parametrize("cores", [[2], [1, 2]])
def test_more_operators_than_cores_share_them(name: str, cores: list[int]) -> None:
    distance_ns = [[0.0 if i == j else 100.0 for j in range(len(cores))] for i in range(len(cores))]
    job = deployment([0.3, 1.2, 0.8, 0.2], CHAIN, cores, distance_ns, rate_per_s=1e8)
    plan = OPTIMIZERS[name].solve(problem(job)).plan
    assert all(plan.parallelism(operator) >= 1 for operator in plan.placement)


def test_it_places_over_hosts_and_their_sockets() -> None:
    """On two machines of two sockets and a slow network, operators with much traffic stay together, on all cores."""
    document = four_sockets().model_dump(mode="json")
    host = document["cluster"]["hosts"][0] | {"cpu_percent": 800, "numa": {"latency_ns": [[0, 100], [100, 0]]}}
    host["sockets"] = host["sockets"][:2]
    document["cluster"]["hosts"] = [host, host | {"name": "g"}]
    job = Deployment.model_validate(document)
    plan = Rlas().solve(problem(job)).plan
    assert {place.partition("/")[0] for places in plan.placement.values() for place in places} <= {"h", "g"}
    assert load_of(job, plan) >= load_of(job, OPTIMIZERS["spread"].solve(problem(job)).plan)


def test_compression_too_coarse_is_refused() -> None:
    plan = {"op0": ("h",), "op1": ("h",) * 6, "op2": ("h",), "op3": ("h",)}
    job = four_sockets()
    job = job.with_plan(job.plan.model_copy(update={"placement": plan}))
    with pytest.raises(BadInput, match="too coarse for any socket"):
        Rlas(scale=False, heuristics=Heuristics(ratio=6)).solve(problem(job))


def test_whether_a_bound_is_told_hangs_on_what_the_cost_model_is_not_on_its_name() -> None:
    job = four_sockets()
    ours, renamed = (RateModel(), RateModel(name="analytic"))
    bounds = [OPTIMIZERS["rlas-placement"].solve(problem(job, cost_model=model)).bound for model in (ours, renamed)]
    assert bounds[0] is not None and bounds[0] == bounds[1]

    class Other:
        name = "rates"

        def predict(self, scenario: Scenario, plans: Sequence[ExecutionPlan]) -> Estimates:
            return RateModel().predict(scenario, plans)

    assert OPTIMIZERS["rlas-placement"].solve(problem(job, cost_model=Other())).bound is None


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), sources=st.integers(2, 3))
def test_one_source_may_be_slowed_and_not_the_other_and_no_bound_is_below_any_plan(seed: int, sources: int) -> None:
    job = claimed_job(seed, sources=sources, on_sockets=True)
    asked = problem(job)
    plans = every_plan(job)[:800]
    most = float(estimate(asked, as_plans(job, plans)).objective.max())
    bound = most_results_per_s(NumaJob(job))
    assert bound >= most * (1 - 1e-6)
    found = OPTIMIZERS["rlas-placement"].solve(replace(asked, budget=5, alternatives=0))
    assert found.bound is not None and most * (1 - 1e-6) <= found.bound <= bound * (1 + 1e-6)
    assert found.status is not Status.OPTIMAL or found.objective >= most * (1 - 1e-3)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), sources=st.integers(1, 3))
def test_shares_fill_what_there_is_and_no_more(seed: int, sources: int) -> None:
    """Each source is let through whole or needs something that is full; a single one's share is the sustained load."""
    scenario = claimed_job(seed, sources=sources, on_sockets=True)
    job, counts = NumaJob(scenario), every_plan(scenario)[:200].astype(float)
    share, uses = source_shares(job, counts), resource_uses(job, counts)
    used = np.einsum("nra,na->nr", uses, share)
    assert used.max() <= 1 + 1e-9
    stopped = ((used > 1 - 1e-6)[:, :, None] & (uses > 0)).any(axis=1)
    assert (stopped | (share > 1 - 1e-6)).all()
    if sources == 1:
        assert share[:, 0] == pytest.approx(np.minimum(sustained(job, counts).load_n, 1), rel=1e-6)


def test_shares_are_what_the_rate_model_says_where_streams_meet() -> None:
    """Of an operator that takes 1,000 records a second, the slow source keeps its 200 and the other gets 800."""
    operators = [
        source("a", service_time_s=1e-6),
        source("b", service_time_s=1e-6),
        {"kind": "map", "name": "m", "service_time_s": 1e-3},
        sink(service_time_s=1e-6),
    ]
    both = literal(operators, [("a", "m"), ("b", "m"), ("m", "sink")], {"a": 200.0, "b": 5000.0})
    job = NumaJob(both)
    counts = job.counts_of(both.plan)[None].astype(float)
    assert source_shares(job, counts)[0] * job.offered_a == pytest.approx([200, 800], rel=1e-2)
    answer = RateModel().answer(both, [both.plan])
    assert source_shares(job, counts)[0] == pytest.approx(answer.ingested[0], rel=1e-2)


def test_of_windows_no_bound_is_claimed_but_all_that_is_offered() -> None:
    """Windows have no bound but all that is offered: half of the records may make more than half of the results."""
    times = {"service_time_s": 1e-5}
    window = {"kind": "aggregate", "name": "m", "window": {"policy": "time", "size_s": 1}, "group_by": "int"}
    operators = [source("a", **times), window | {"groups": 50} | times, sink(**times)]
    for rate, told in ((1e3, True), (1e7, False)):
        job = literal(operators, [("a", "m"), ("m", "sink")], {"a": rate})
        assert not NumaJob(job).additive
        assert (OPTIMIZERS["rlas-placement"].solve(problem(job)).bound is not None) == told


@pytest.mark.parametrize(("rate_per_s", "keeps_up"), [(1001.0, True), (1050.0, False)])
def test_what_keeps_up_is_not_told_that_it_is_offered_too_much(rate_per_s: float, keeps_up: bool) -> None:
    """A plan that keeps up at 1,001 a second is not called limited by a subtask of 1,000 a second; at 1,050 it is."""
    operators = [source(service_time_s=1e-5), {"kind": "map", "name": "m", "service_time_s": 1e-3}]
    operators.append(sink(service_time_s=1e-5))
    job = literal(operators, [("source", "m"), ("m", "sink")], {"source": rate_per_s})
    found = OPTIMIZERS["rlas-placement"].solve(problem(job))
    assert (found.runs, "limited by a subtask of m" in found.message) == (keeps_up, not keeps_up)


def test_what_is_idle_shares_a_core_where_there_are_few() -> None:
    """Idle operators share a core where there are few: 350 records a second of 10 ms get four subtasks on four cores,
    beside an idle source and sink; with a core for each subtask there would be two."""
    operators = [source(), {"kind": "map", "name": "heavy"}, sink()]
    operators = [each | {"service_time_s": 0.01 if each["name"] == "heavy" else 1e-5} for each in operators]
    job = literal(operators, [("source", "heavy"), ("heavy", "sink")], {"source": 350.0})
    host = job.cluster.hosts[0].model_copy(update={"cpu_percent": 200.0})
    hosts = (host, host.model_copy(update={"name": "other"}))
    job = job.model_copy(update={"cluster": job.cluster.model_copy(update={"hosts": hosts})})
    found = OPTIMIZERS["rlas"].solve(problem(job))
    assert found.plan.parallelism("heavy") >= 4 and found.feasible
    assert not simulate(Scenario.of(job).with_plan(found.plan)).metrics.backpressured


def test_what_needs_nearly_a_core_has_one_or_is_two() -> None:
    """An operator that needs 92 % of a core gets two subtasks where it shares three cores with three threads."""
    far = 9000.0 * (1.0 - np.eye(3))
    job = deployment([0.3, 0.5, 0.5, 0.92], CHAIN, [3, 3, 3], far, rate_per_s=1e6)
    model, found = NumaJob(job), Rlas().solve(problem(job))
    counts_ol = model.counts_of(found.plan)
    assert found.feasible and counts_ol.any(axis=0).sum() == 1
    assert not pressed(model, counts_ol[None])[0] and pressed(model, np.minimum(counts_ol, 1)[None])[0]


def test_of_plans_that_are_predicted_alike_that_is_taken_where_nobody_is_pressed() -> None:
    """Of plans predicted alike, the uncrowded one is taken: two sinks that need 94 % of a core have one each."""
    job = claimed_job(9, on_sockets=True)
    counts_ol = NumaJob(job).counts_of(OPTIMIZERS["rlas"].solve(problem(job)).plan)
    (socket,) = np.flatnonzero(counts_ol[-1])
    assert counts_ol[-1, socket] == counts_ol[:, socket].sum() == NumaJob(job).cores_l[socket]


def job(how: str, parallelism: int = 2, rate_per_s: float = 1e6) -> Scenario:
    """Job source -> map -> sink on two sockets of two cores, 1 us apart. how: partitioning of the map's streams."""
    parts = (("source", "a", 0.5e-6), ("map", "m", 2e-6), ("sink", "z", 1e-6))
    operators = [
        {"kind": kind, "name": name, "service_time_s": time_s, "record_bytes": 64} for kind, name, time_s in parts
    ]
    host = HOST | {"cpu_percent": 400, "bandwidth_mbps": 1000, "sockets": [{"cores": 2}] * 2}
    hosts = [host | {"numa": {"latency_ns": [[0, 1000], [1000, 0]]}}]
    law, places = {"law": "constant", "rate_per_s": rate_per_s}, dict.fromkeys("amz", ["h"] * parallelism)
    made = literal(operators, [("a", "m"), ("m", "z")], {"a": law}, hosts, places, engine="brisk")
    made = dealt(made, m="forward" if how == "forward" else "rebalance", z=how)
    return Scenario.of(made, RunSettings(horizon_s=0.3, warmup_s=0.1, period_s=0.05))


def solved(scenario: Scenario, name: str, model: CostModel, budget: int = 1000) -> Solution:
    return OPTIMIZERS[name].solve(
        Problem(scenario=scenario, cost_model=model, objective="throughput_per_s", budget=budget)
    )


@pytest.mark.parametrize("how", ["forward", "global", "broadcast"])
def test_no_plan_of_so_many_subtasks_is_better_under_the_cost_model_and_nothing_is_claimed(how: str) -> None:
    scenario = job(how)
    found = solved(scenario, "rlas-placement", RateModel())
    asked = Problem(scenario=scenario, cost_model=RateModel(), objective="throughput_per_s")
    best = float(estimate(asked, as_plans(scenario, every_plan(scenario))).objective.max())
    assert found.objective == pytest.approx(best, rel=1e-3)
    assert found.status is Status.FEASIBLE and found.bound is None
    assert f"m -> z ({how})" in found.message


def test_pairs_are_kept_together_where_the_simulator_judges() -> None:
    """None of the 27 plans is better in runs, although the search itself takes all streams for evenly dealt."""
    scenario, model = (
        job("forward").with_run(horizon_s=0.03, warmup_s=0.015, period_s=0.015),
        SimulatedCostModel(simulate),
    )
    found = solved(scenario, "rlas-placement", model, budget=30)
    plans = as_plans(scenario, every_plan(scenario))
    best = float(max(model.predict(scenario, [plan])["throughput_per_s"][0] for plan in plans))
    assert found.objective >= best * 0.99


@pytest.mark.parametrize("how", ["forward", "global", "broadcast"])
def test_numbers_that_hang_together_stay_so(how: str) -> None:
    scenario = job(how, parallelism=1)
    found = solved(scenario, "rlas", RateModel()).plan
    a, m, z = (found.parallelism(name) for name in ("a", "m", "z"))
    if how == "forward":
        assert a == m == z
    elif how == "broadcast":
        assert z > 1  # each copy is a result
    else:
        assert z == 1 and m > 1
    scenario.with_plan(found)


def test_what_has_no_last_phase_refuses() -> None:
    for name in ("rlas-fix-l", "first-fit", "random-sockets"):
        with pytest.raises(BadInput, match="streams to be spread evenly"):
            solved(job("global"), name, RateModel())
