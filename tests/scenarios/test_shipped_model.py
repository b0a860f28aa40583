"""Model that comes with the package, asked by ordinary jobs that no paper has."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from models import shipped
from models.features import FEATURE_VERSION
from models.labels import KINDS
from models.prediction import SHARE
from optimizers.interface import Problem, Status
from optimizers.judging import WORTH
from optimizers.milp.ages import fixed_s
from optimizers.objectives import Requirements
from optimizers.selection import estimate, sees_beyond_rates
from optimizers.space import SpacePlans, as_plans
from scenarios.files.scenario_file import load
from scenarios.planning import planner
from scenarios.planning.cost_models import cost_model, cost_models, is_learned, planner_for
from scenarios.planning.planner import optimize
from scenarios.suite import TOGETHER, demanding
from tests.twin import worlds
from tests.twin.worlds import sink, source
from twin.errors import BadInput
from twin.metrics import CHECKPOINTS, ESTIMATED, LATENCIES, Ranged, Unsure
from twin.randomness import random_stream
from twin.rates.coefficients import PlacementCoefficients
from twin.rates.model import RateModel
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate
from twin.workload import Diurnal, Step, Steps, Workload

MOST_BYTES = 2_000_000
RUN = RunSettings(horizon_s=20.0, warmup_s=4.0, period_s=4.0)


def host(name, cpu_percent, latency_ms):
    return {
        "name": name,
        "cpu_percent": cpu_percent,
        "ram_mb": 8000,
        "bandwidth_mbps": 1000,
        "latency_ms": latency_ms,
    }


HOSTS = [host("a", 100, 20), host("b", 200, 5), host("c", 400, 1)]
JOIN = {
    "kind": "join",
    "name": "match",
    "window": {"policy": "time", "size_s": 0.5},
    "key_type": "int",
    "selectivity": 0.002,
}


def job(operators, streams, rates, placement):
    return Scenario.of(worlds.deployment(operators, streams, rates, hosts=HOSTS, placement=placement), run=RUN)


@cache
def jobs():
    """Jobs: two inputs; four subtasks; a chain with its owner's plan; a second source into a union; busy hosts."""
    two = (
        [source("l", service_time_s=None), source("r", service_time_s=None), JOIN, sink("out", service_time_s=None)],
        [("l", "match"), ("r", "match"), ("match", "out")],
    )
    work = {"kind": "filter", "name": "work", "selectivity": 0.5}
    chain = (
        [source("s", service_time_s=None), work, sink("out", service_time_s=None)],
        [("s", "work"), ("work", "out")],
    )
    union = (
        [source("s", service_time_s=None), source("t", service_time_s=None), work, sink("out", service_time_s=None)],
        [("s", "work"), ("t", "work"), ("work", "out")],
    )
    every = {"s": "a", "work": "a", "out": "a"}
    return {
        "join": job(*two, {"l": 100, "r": 50}, dict.fromkeys(("l", "r", "match", "out"), "a")),
        "parallelism": job(*chain, {"s": 400}, every | {"work": {"a": 2, "b": 2}}),
        "own plan": job(*chain, {"s": 200}, {"s": "b", "work": "c", "out": "a"}),
        "union": job(*union, {"s": 150, "t": 250}, every | {"t": "b"}),
        "busy": job(*chain, {"s": 3000}, every),
    }


def test_its_file_is_small_and_of_todays_features():
    file = shipped.FOLDER / "all.msgpack"
    assert file.stat().st_size < MOST_BYTES
    (ensemble,) = shipped.model().ensembles
    assert ensemble.manifest["feature_version"] == FEATURE_VERSION
    assert len(ensemble.scaling.gate) == len(KINDS)
    assert ensemble.metrics == ESTIMATED
    assert set(ensemble.manifest["demands"]) == {"arrivals", "few", "several", "drift", "pauses", "checkpoints"}
    assert "simulated" in (shipped.FOLDER / "card.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["word-count", "cdc", "enrichment", "nexmark-q4", "nexmark-q16", "nexmark-q20"])
def test_jobs_of_all_kinds_are_judged_with_quantiles_in_order(name):
    job = load(name)
    found = cost_model("learned").predict(job, [job.plan])
    known = [metric for metric in ESTIMATED if metric not in CHECKPOINTS or job.checkpoints is not None]
    assert all(np.isfinite(found[metric]).all() for metric in known)
    for latency in LATENCIES:
        p50, p95, p99 = (found[f"{latency}.{each}"][0] for each in ("p50", "p95", "p99"))
        assert p50 <= p95 <= p99


def test_many_sources_are_judged_without_extrapolation():
    """Six machines that cut in bursts."""
    job = load("machine-stop")
    assert not cost_model("learned").beyond(job)
    run_s = simulate(job).metrics.value("e2e_latency_s")
    assert cost_model("learned").predict(job, [job.plan])["e2e_latency_s"][0] == pytest.approx(run_s, rel=0.5)


def test_a_quantile_is_an_objective_and_a_limit_of_planners():
    """The plan of the least p99, as predicted, is no worse than the given one by the same predictions; and a limit that
    no plan keeps is told."""
    job, p99 = load("edge-filter"), "e2e_latency_s.p99"
    found = optimize(job, "local-search", "learned", objective=p99)
    given, chosen = cost_model("learned").predict(job, [job.plan, found.plan])[p99]
    assert found.objective == pytest.approx(chosen) and chosen <= given * (1 + 1e-9)
    kept = optimize(job, "local-search", "learned", requirements=Requirements(at_most={p99: 1e-6}))
    assert not kept.fulfils and f"keeps {p99} to at most 1e-06 s" in kept.message


@pytest.mark.parametrize("name", sorted(jobs()))
def test_what_it_chooses_keeps_up_and_is_near_the_best_by_rates(name):
    scenario = jobs()[name]
    found = optimize(scenario, "milp", "learned")
    assert found.status is Status.FEASIBLE
    assert found.bound is None
    problem = Problem(scenario=scenario, cost_model=RateModel())
    every = estimate(problem, as_plans(scenario, SpacePlans(scenario, problem.space).all()))
    best = float(every.objective[every.feasible].min())
    unchanged = fixed_s(PlacementCoefficients.of(scenario))
    chosen = float(estimate(problem, [found.plan]).objective[0])
    kept = found.plan == scenario.plan  # as another is not worth its moves
    assert chosen <= best + (WORTH * best if kept else 0.01 * (best - unchanged) * (1 + 1e-9))
    metrics = simulate(scenario.with_plan(found.plan)).metrics
    assert metrics.success
    assert not metrics.backpressured


def test_most_runs_are_where_it_says():
    inside = []
    for scenario in jobs().values():
        model = cost_model("learned")
        assert isinstance(model, Unsure)
        low, high = model.interval(scenario, [scenario.plan], "processing_latency_s")[:, 0]
        said = model.predict(scenario, [scenario.plan])["processing_latency_s"][0]
        assert low < said < high
        inside.append(low <= simulate(scenario).metrics.value("processing_latency_s") <= high)
    assert np.mean(inside) >= SHARE - 0.3  # of five


def test_of_bursts_it_says_how_far_off_it_may_be_and_of_what_it_never_saw_it_does_not():
    learned, latency, inside = cost_model("learned"), "e2e_latency_s", []
    for seed in range(10000, 10024):
        scenario = demanding(seed)
        drawn = SpacePlans(scenario, TOGETHER).sample(random_stream(seed, "drawn"), 1)
        assert learned.blind_to(scenario) == ()
        for plan in as_plans(scenario, drawn):
            low, high = planner.interval(scenario, learned, plan, latency)
            inside.append(low <= simulate(scenario.with_plan(plan)).metrics.value(latency) <= high)
    assert np.mean(inside) >= SHARE - 0.15  # of 24 jobs, 2.4 standard errors
    failing = Scenario(**{**dict(scenario), "events": [{"kind": "failure", "at_s": 20, "host": "host-2"}]})
    assert planner.interval(failing, learned, failing.plan, latency) is None


@pytest.mark.parametrize(
    "law",
    [
        Diurnal(rate_per_s=100, amplitude=1),  # a day, of which a run sees a minute
        Steps(steps=(Step(at_s=10, rate_per_s=100),)),  # no model learned from any
    ],
)
def test_of_peaks_unlike_those_that_it_learned_from_rates_say_what_is_near(law):
    base = jobs()["own plan"]
    scenario = Scenario(**{**dict(base), "workload": Workload(arrivals={"s": law})})
    learned = cost_model("learned")
    assert learned.blind_to(scenario) or planner.beyond(scenario, learned)
    assert planner.interval(scenario, learned, scenario.plan, "e2e_latency_s") is None
    assert not sees_beyond_rates(Problem(scenario=scenario, cost_model=learned))
    assert sees_beyond_rates(Problem(scenario=demanding(10000), cost_model=learned))


def test_runs_longer_than_any_that_it_learned_from_are_answered_as_the_longest():
    """Runs longer than any learned get the answer of the longest, as bursts have the same effect in them."""
    learned, longest = cost_model("learned"), demanding(10000).with_run(horizon_s=240.0)
    longer = longest.with_run(horizon_s=600.0)
    plans = [longest.plan]
    assert shipped.model().run_s(longer) == 240.0 and learned.blind_to(longer) and not learned.blind_to(longest)
    for metric in ("e2e_latency_s", "processing_latency_s"):
        assert learned.predict(longer, plans)[metric] == pytest.approx(
            learned.predict(longest, plans)[metric], rel=0.05
        )


def test_names_of_cost_models_and_what_is_wrong_with_them(tmp_path):
    models = cost_models("rates, learned")
    assert list(models) == ["rates", "learned"]
    assert [is_learned(each) for each in models.values()] == [False, True]
    assert isinstance(models["learned"], Ranged)
    (milp,) = planner.optimizers("milp")
    assert [planner_for(milp, models[name]).near for name in ("rates", "learned")] == [False, True]
    assert not planner_for(*planner.optimizers("local-search"), models["learned"]).near
    for name, words in (
        ("learnt", "did you mean 'learned'"),
        ("learned:nowhere", "'nowhere' is no folder"),
        (f"learned:{tmp_path}", "holds no cost model"),
    ):
        with pytest.raises(BadInput, match=words):
            cost_model(name)
    for names in ("", "rates,rates"):
        with pytest.raises(BadInput, match="name each once"):
            cost_models(names)


def test_a_job_unlike_all_that_it_saw_is_said_to_be():
    scenario = jobs()["busy"]
    assert planner.beyond(scenario, cost_model("learned")) == []
    hosts = tuple(each.model_copy(update={"ram_mb": 5e6}) for each in scenario.cluster.hosts)
    larger = scenario.model_copy(update={"cluster": scenario.cluster.model_copy(update={"hosts": hosts})})
    assert planner.beyond(larger, cost_model("learned")) == ["host ram"]
    assert planner.beyond(larger, cost_model("rates")) == []
