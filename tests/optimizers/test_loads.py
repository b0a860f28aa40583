"""Loads to plan for: what they are of each arrival law, and that no planner is worse than plans by rates for them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizers.interface import Problem, Status
from optimizers.planner import LOADS, MEAN, PEAK, TWICE, Planner, RatesAt, loads_of, rates_at
from optimizers.registry import OPTIMIZERS
from optimizers.space import Space
from scenarios.planning.cost_models import cost_model, is_learned, with_loads
from scenarios.planning.planner import optimize
from tests.optimizers.conftest import TableModel, on_first_host
from twin.arrivals.laws import ArrivalLaw, BurstState, Bursty, Constant, Diurnal, Poisson, Spikes, Step, Steps
from twin.arrivals.replay import Replay
from twin.deployment import nominal_rates
from twin.errors import BadInput
from twin.rates.model import RateModel
from twin.scenario import Scenario
from twin.workload import Workload

BURSTS = Bursty(states=(BurstState(rate_per_s=50, mean_s=3), BurstState(rate_per_s=250, mean_s=1)))
LAWS = {
    "bursty": (BURSTS, 250.0),
    "diurnal": (Diurnal(rate_per_s=100, amplitude=0.5), 150.0),
    "steps": (Steps(steps=(Step(at_s=0, rate_per_s=10), Step(at_s=30, rate_per_s=70)), period_s=60), 70.0),
    "spikes": (Spikes(rate_per_s=20, factor=5, every_s=30, duration_s=3), 100.0),
}


def job(*laws: ArrivalLaw) -> Scenario:
    """Tree of two sources, with everything on the first host."""
    one, other = laws if len(laws) == 2 else laws * 2
    return on_first_host().model_copy(update={"workload": Workload(arrivals={"a": one, "b": other})})


@pytest.mark.parametrize("law", LAWS)
def test_the_peak_of_each_source_is_the_highest_rate_of_its_law_and_no_other_source_changes(law):
    varying, highest_per_s = LAWS[law]
    asked = job(varying, Poisson(rate_per_s=30))
    assert loads_of(asked) == (MEAN, TWICE, PEAK)
    mean_per_s = varying.mean_rate_per_s
    expected = {MEAN: (mean_per_s, 30.0), TWICE: (2 * mean_per_s, 60.0), PEAK: (highest_per_s, 30.0)}
    for name, load in LOADS.items():
        under = load.on(asked)
        rates = nominal_rates(under.query, under.workload.arrivals)
        assert (rates["a"].in_per_s, rates["b"].in_per_s) == pytest.approx(expected[name], rel=1e-9)
    top_per_s = max(rate for _, (_, rate) in zip(range(64), varying.phases(np.random.default_rng(1)), strict=False))
    assert top_per_s == pytest.approx(highest_per_s, rel=2e-3), "a slice of a wave has the mean of the slice"


@given(
    gaps_s=st.lists(st.floats(0.02, 5.0), min_size=1, max_size=30),
    speed=st.floats(0.1, 10.0),
    factor=st.floats(0.1, 10.0),
)
def test_no_recording_has_a_peak_below_its_mean(tmp_path_factory, gaps_s, speed, factor):
    path = tmp_path_factory.mktemp("replay") / "times.csv"
    path.write_text("time_s\n" + "\n".join(f"{time:.6f}" for time in np.cumsum([0.0, *gaps_s])))
    law = Replay(path=str(path), speed=speed, rate_factor=factor)
    assert law.peak_rate_per_s >= law.mean_rate_per_s * (1 - 1e-12)


@pytest.mark.parametrize("law", [Poisson(rate_per_s=30), Constant(rate_per_s=30), Diurnal(rate_per_s=30, amplitude=0)])
def test_where_no_source_varies_there_is_one_candidate(law):
    steady = job(law)
    assert loads_of(steady) == (MEAN,)
    asked = [rates_at(PEAK), TableModel()]
    assert [each.name for each in with_loads(asked, steady)] == ["table", "rates"]
    varying = [each.name for each in with_loads(asked, job(law, BURSTS))]
    assert varying == ["rates:peak", "table", "rates", "rates:twice"]


def test_rates_at_the_peak_are_the_rate_models_of_the_job_with_that_load():
    asked = job(BURSTS, Poisson(rate_per_s=30))
    loaded = job(Poisson(rate_per_s=250), Poisson(rate_per_s=30))
    plans = [asked.plan, asked.plan.with_placement(dict.fromkeys(asked.plan.placement, ("h2",)))]
    found, expected = cost_model("rates:peak").predict(asked, plans), RateModel().planning().predict(loaded, plans)
    for metric, values in expected.by_metric.items():
        assert found[metric] == pytest.approx(values, rel=1e-12, nan_ok=True), metric
    assert not is_learned(cost_model("rates:peak"))


def test_an_unknown_load_is_refused_in_one_line():
    with pytest.raises(BadInput, match="unknown load 'peaks'; did you mean 'peak'"):
        cost_model("rates:peaks")


@pytest.mark.parametrize("name", ["milp", "branch-and-bound", "exhaustive", "local-search"])
def test_a_plan_for_the_peak_is_that_of_the_job_at_the_peak_and_proves_nothing_of_the_job(name):
    asked = job(BURSTS, Poisson(rate_per_s=30))
    loaded = job(Poisson(rate_per_s=250), Poisson(rate_per_s=30))
    found, expected = optimize(asked, name, "rates:peak"), optimize(loaded, name, "rates")
    assert (found.plan, found.objective) == (expected.plan, pytest.approx(expected.objective, rel=1e-12))
    assert (found.status, found.bound, found.among) == (Status.FEASIBLE, None, "")
    assert "planned for each source's highest rate" in found.message
    steady = optimize(loaded, name, "rates:peak")
    assert (steady.status, steady.bound) == (expected.status, expected.bound), "there the peak is what is asked"


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("name", ["milp", "branch-and-bound", "local-search", "costream"])
def test_no_planner_is_worse_than_a_start_by_its_own_judge(name, seed):
    """The judge is a table without structure, so plans by rates often beat what a short search finds."""
    rng = np.random.default_rng(seed)
    asked = job(BURSTS.scaled(float(rng.uniform(0.2, 2.0))), Poisson(rate_per_s=float(rng.uniform(5, 80))))
    space = Space(pinned=frozenset({"a"}), costream_rules=name == "costream")
    judge = TableModel(0.0 if seed % 2 else 0.2)
    problem = Problem(scenario=asked, cost_model=judge, seed=seed, budget=12, space=space)
    found = Planner(OPTIMIZERS[name]).solve(problem)
    assert list(found.starts) == ["rates", "rates:twice", "rates:peak"]
    _check(problem, judge, found)


def _check(problem: Problem, judge: TableModel, found) -> None:
    said = judge.predict(problem.scenario, [found.plan])
    value = float(said["processing_latency_s"][0])
    assert found.objective == pytest.approx(value)
    assert found.plan.placement["a"] == problem.scenario.plan.placement["a"], "pinned"
    assert found.plan == problem.scenario.plan or problem.space.includes(problem.deployment, found.plan)
    assert (found.status, found.bound) == (Status.FEASIBLE, None)
    for each in (*found.starts.values(), found.given):
        assert not each.feasible or found.feasible
        if each.feasible:
            assert value <= each.objective * 1.01, "as the given plan is kept, and a surer one taken, for one per cent"


@pytest.mark.parametrize("name", ["governor", "random", "milp-hosts", "milp-rate"])
def test_what_is_no_search_for_the_objective_has_no_starts(name):
    problem = Problem(scenario=job(BURSTS), cost_model=TableModel(0.0), budget=20)
    planner = Planner(OPTIMIZERS[name], keeps=False) if name in ("governor", "random") else Planner(OPTIMIZERS[name])
    assert planner.solve(problem).starts == {}
    by_rates = replace(problem, cost_model=RateModel().planning())
    assert Planner(OPTIMIZERS["milp"]).solve(by_rates).starts == {}, "the rate model's own answer needs none"


def test_rates_at_a_load_have_its_name_and_the_blindness_of_the_rate_model():
    asked, model = job(BURSTS), RatesAt(TWICE, RateModel())
    assert (model.name, model.blind_to(asked)) == ("rates:twice", RateModel().blind_to(asked))
