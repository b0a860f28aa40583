"""Plans proved in a (fake) simulator: regret, its confidence, and what is flagged."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import stats

from optimizers.local_search import Exhaustive
from optimizers.registry import OPTIMIZERS
from scenarios.planning.bench import PlanOutcome, SimulatedCostModel, half_width95, regret_of, replicate
from scenarios.planning.validation import validate
from scenarios.spaces.generator import COSTREAM, random_scenario
from twin.errors import BadInput
from twin.metrics import Latency, Metrics
from twin.plan import ExecutionPlan
from twin.randomness import random_stream
from twin.rates.model import RateModel
from twin.scenario import RunSettings

CONTESTANTS = [OPTIMIZERS[name] for name in ("random", "governor", "local-search", "costream", "milp", "exhaustive")]
OBJECTIVES = ("processing_latency_s", "e2e_latency_s", "throughput_per_s")


@dataclass(frozen=True)
class FakeRun:
    metrics: Metrics


def fake(noise: float = 0.1, breaks: float = 0.3):
    """Simulator without structure: the plan decides the mean cost and whether it runs well, the seed the noise."""

    def simulate(scenario) -> FakeRun:
        plan = random_stream(0, str(sorted(scenario.plan.placement.items())))
        rate, latency_s, backpressure, failure = plan.random(4)
        factor = float(np.exp(noise * random_stream(scenario.run.seed, "noise").normal()))
        success = bool(failure > breaks / 2)
        latency = Latency(*([float(latency_s) * factor] * 4)) if success else None
        return FakeRun(
            Metrics(
                throughput_per_s=float(rate) * factor if success else 0.0,
                processing_latency_s=latency,
                e2e_latency_s=latency,
                backpressure_per_s=0.0,
                backpressured=bool(backpressure < breaks),
                success=success,
                records_in=1,
                records_out=1,
            )
        )

    return simulate


@pytest.fixture(scope="module")
def scenarios():
    found = [random_scenario(COSTREAM, seed, RunSettings()) for seed in range(60)]
    return [each for each in found if len(each.query.operators) <= 6 and len(each.cluster.hosts) <= 4][:3]


def rows_of(scenarios, objective="processing_latency_s", replications=3, **options):
    return validate(scenarios, CONTESTANTS, [RateModel()], fake(), replications, 1, objective=objective, **options)


@pytest.mark.slow
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("references", [0, 20])
def test_regret_is_never_negative_and_some_plan_has_none(objective, references, scenarios):
    rows = rows_of(scenarios, objective, budget=20, references=references)
    assert len(rows) == len(scenarios) * len(CONTESTANTS)
    for row in rows:
        assert row.regret >= 0
        if math.isfinite(row.regret):
            ratio = row.best / row.simulated if objective == "throughput_per_s" else row.simulated / row.best
            assert row.regret == pytest.approx(ratio - 1)
    if references == 0:  # then the best known plan is one of the chosen
        for scenario in scenarios:
            assert min(row.regret for row in rows if row.scenario == scenario.name) == 0


def test_the_simulator_as_cost_model_finds_the_best_plan_of_a_small_scenario(scenarios):
    """Exhaustive search by "sim" has no regret with the same random numbers in planning and proof."""
    simulate = fake()
    for scenario in scenarios:
        model = SimulatedCostModel(simulate, 5, replications=3)
        (row,) = validate([scenario], [Exhaustive()], [model], simulate, 3, 5, references=10)
        assert row.status in {"optimal", "infeasible"}
        if row.status == "optimal":
            assert row.regret == 0
            assert row.predicted == pytest.approx(row.simulated)


def test_plans_that_break_are_flagged_and_infinitely_worse_than_those_that_run(scenarios):
    rows = rows_of(scenarios, budget=5, references=40)
    broken = [row for row in rows if row.backpressured or not row.success]
    assert broken
    for row in broken:  # with 40 references, some plan of every scenario runs well
        assert row.regret == math.inf
        assert row.regret_ci95 is None


def test_a_refusal_is_a_row_and_does_not_stop_the_others(scenarios):
    rows = validate(scenarios[:1], [Exhaustive(max_plans=1), OPTIMIZERS["random"]], [RateModel()], fake(), 1, 0)
    assert [row.status for row in rows] == ["refused", "feasible"]
    assert "at most 1 are tried" in rows[0].message
    assert rows[0].regret is None
    assert rows[1].ci95 is None  # one replication has no interval


def test_every_plan_is_simulated_once_with_common_random_numbers(scenarios):
    seen: list[tuple[str, int]] = []
    simulate = fake()

    def spy(scenario):
        seen.append((scenario.plan.model_dump_json(), scenario.run.seed))
        return simulate(scenario)

    validate(scenarios[:1], list(OPTIMIZERS.values()), [RateModel()], spy, 4, 2, budget=10)
    assert len(seen) == len(set(seen))
    seeds = {plan: frozenset(seed for p, seed in seen if p == plan) for plan, _ in seen}
    assert len(set(seeds.values())) == 1
    assert len(next(iter(seeds.values()))) == 4


def test_the_interval_of_a_mean_covers_it_95_times_in_100():
    rng = np.random.default_rng(0)
    samples = rng.normal(3.0, 2.0, size=(4000, 5))
    covered = np.mean([abs(sample.mean() - 3.0) <= half_width95(sample) for sample in samples])
    assert stats.binomtest(int(covered * 4000), 4000, 0.95).pvalue > 1e-4


def test_runs_without_results_under_both_plans_leave_the_interval_unknown_without_a_warning():
    mine, best = (PlanOutcome(np.array([value, math.inf]), False, True) for value in (2.0, 1.0))
    with np.errstate(all="raise"):
        assert regret_of(mine, best) == (1.0, None)


def test_common_noise_cancels_in_the_interval_of_theregret_of():
    noise = np.array([0.7, 1.0, 1.6])
    mine, best = PlanOutcome(2.0 * noise, False, True), PlanOutcome(noise, False, True)
    regret, ci95 = regret_of(mine, best)
    assert regret == pytest.approx(1.0)
    assert ci95 == pytest.approx(0.0, abs=1e-12)
    assert half_width95(mine.values) > 1.0


def test_a_single_replication_without_results_does_not_decide():
    """A plan with results in two of three runs is a success, judged by those two; never better than the best."""
    best = PlanOutcome(np.array([1.0, 2.0, 3.0]), False, True)
    regret, ci95 = regret_of(PlanOutcome(np.array([3.0, math.inf, 5.0]), False, True), best)
    assert regret == pytest.approx(4.0 / 2.0 - 1.0)
    assert ci95 is None
    assert regret_of(PlanOutcome(np.full(3, math.inf), False, True), best) == (math.inf, None)


def test_the_simulated_cost_model_averages_its_replications(scenarios):
    scenario, simulate = scenarios[0], fake(breaks=0.0)
    model = SimulatedCostModel(simulate, 3, replications=4)
    hosts = [host.name for host in scenario.cluster.hosts]
    plans = [ExecutionPlan(placement=dict.fromkeys(scenario.plan.placement, host)) for host in hosts]
    says = model.predict(scenario, plans)
    for index, plan in enumerate(plans):
        runs = replicate(simulate, scenario.with_plan(plan).with_run(seed=3), 4)
        assert says["throughput_per_s"][index] == pytest.approx(np.mean([run.throughput_per_s for run in runs]))
        latencies = [run.processing_latency_s.mean for run in runs]
        assert says["processing_latency_s"][index] == pytest.approx(np.mean(latencies))
        assert says.spread[index] == pytest.approx(np.std(np.log(latencies)))
    assert len(model.predict(scenario, [])["success"]) == 0


def test_a_plan_without_results_costs_infinitely_much(scenarios):
    model = SimulatedCostModel(fake(breaks=2.0))
    says = model.predict(scenarios[0], [scenarios[0].plan])
    assert (says["processing_latency_s"][0], says["throughput_per_s"][0], says["success"][0]) == (math.inf, 0.0, 0.0)


def test_bad_arguments(scenarios):
    with pytest.raises(BadInput, match="replications must be >= 1, got 0"):
        rows_of(scenarios, replications=0)
    with pytest.raises(BadInput, match="references must be >= 0, got -1"):
        rows_of(scenarios, references=-1)
    with pytest.raises(BadInput, match="replications must be >= 1, got 0"):
        SimulatedCostModel(fake(), replications=0)
