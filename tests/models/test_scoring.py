"""Tests of scoring: many plans of a job get the flat network's answers; a model refuses unknown kinds and words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import jax
import numpy as np
import pytest

from models.checkpoint import Ensemble, coverage_of, found_in, outside, refuse_unseen, unseen, unseen_rows
from models.dataset import Dataset, of_deployments
from models.features import LEARNED, node_type
from models.gnn import initial
from models.graph import graph_table
from models.job_columns import job_columns
from models.labels import Scaling
from models.prediction import LearnedCostModel
from models.scoring import distinct
from models.settings import NetworkConfig
from scenarios.files.scenario_file import load
from scenarios.spaces.generator import random_scenario
from scenarios.spaces.registry import SPACES
from tests.models.deployments import random_deployment, random_plan
from twin.cluster import Link
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.kinds.registry import BY_KIND
from twin.metrics import METRICS, REGRESSION_METRICS
from twin.plan import ExecutionPlan
from twin.profiles import Noise
from twin.rates.model import RateModel
from twin.rates.seats import Placements
from twin.scenario import RunSettings, Scenario

CONFIGS = {
    "default": NetworkConfig(hidden=6, outputs=5),
    "paper": NetworkConfig(hidden=6, outputs=5, features="table1", combine="sum", phase_weights="shared", layers=3),
    "residual": NetworkConfig(hidden=6, outputs=5, residual=True),
    "physics": NetworkConfig(hidden=6, outputs=5, features="physics"),
    "estimates": NetworkConfig(hidden=6, outputs=5, estimates=True, residual=True),
    "composed": NetworkConfig(hidden=6, outputs=5, features="composed", estimates=True, residual=True, readout="mean"),
    "operators only": NetworkConfig(hidden=6, outputs=5, features="operators"),
}


def model(config: NetworkConfig, members: int = 3, metrics: tuple[str, ...] = METRICS) -> LearnedCostModel:
    """Untrained ensemble with biases."""

    def noisy(seed: int) -> Any:
        rng = np.random.default_rng(seed)
        fresh = initial(config, seed)
        return jax.tree.map(lambda leaf: leaf + 0.1 * rng.normal(size=leaf.shape).astype(np.float32), fresh)

    scaling = Scaling((1.0, -2.0, 0.5, 0.0, 0.0)[: len(metrics)], (2.0, 1.5, 1.0, 1.0, 1.0)[: len(metrics)])
    return LearnedCostModel("m", (Ensemble(metrics, config, scaling, tuple(map(noisy, range(members))), {}),))


def plans_of(seed: int, count: int, hosts: int = 4, parallelism: int = 1) -> tuple[Any, Sequence[ExecutionPlan]]:
    deployment = random_deployment(seed, hosts=hosts)
    rng = np.random.default_rng(seed)
    return deployment, [random_plan(rng, deployment.query, hosts, parallelism) for _ in range(count)]


@pytest.mark.parametrize("name", CONFIGS)
def test_plans_score_as_the_flat_network_says(name: str) -> None:
    deployment, plans = plans_of(5, 20, hosts=6, parallelism=2)
    cost_model = model(CONFIGS[name])
    fast = cost_model.predict_plans(deployment, plans).values
    flat = cost_model.predict_graphs(graph_table((deployment.with_plan(plan) for plan in plans), RateModel())).values
    for metric in METRICS:
        np.testing.assert_allclose(fast[metric], flat[metric], rtol=1e-4, atol=1e-4)


def test_estimate_does_not_depend_on_the_other_plans_or_on_the_jobs_own() -> None:
    cost_model = model(CONFIGS["default"])
    deployment, plans = plans_of(7, 150)
    together = cost_model.predict(deployment, plans)
    for row in (0, 77, 149):
        alone = cost_model.predict(deployment.with_plan(plans[row]), [plans[row]])
        for metric in METRICS:
            np.testing.assert_allclose(alone[metric][0], together[metric][row], rtol=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_ranking_does_not_depend_on_how_many_plans_are_scored_at_once(seed: int) -> None:
    deployment = random_deployment(seed, hosts=5)
    rows = np.random.default_rng(seed).integers(5, size=(1500, len(deployment.query.operators)))
    cost_model = model(NetworkConfig(hidden=48, outputs=5, estimates=True, residual=True))
    whole = cost_model.predict_plans(deployment, Placements(deployment, rows)).values
    for size in (1, 7, 1030):
        part = cost_model.predict_plans(deployment, Placements(deployment, rows[-size:])).values
        for metric in METRICS:
            np.testing.assert_allclose(part[metric], whole[metric][:, -size:], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("span", [3, 100, 10**7])
def test_alike_rows_are_of_one_kind_and_others_of_another(span: int) -> None:
    columns = np.random.default_rng(span).integers(span, size=(4, 500))
    columns[:, 100:200] = columns[:, :100]
    row, kind = distinct(columns)
    np.testing.assert_array_equal(columns[:, row][:, kind], columns)
    assert len(row) == len({tuple(each) for each in columns.T}) == kind.max() + 1


def test_placements_score_as_plan_objects_do() -> None:
    deployment = random_deployment(11, hosts=5)
    rows = np.random.default_rng(0).integers(5, size=(300, len(deployment.query.operators)))
    placements, cost_model = Placements(deployment, rows), model(CONFIGS["default"])
    fast, slow = cost_model.predict(deployment, placements), cost_model.predict(deployment, list(placements))
    for metric in METRICS:
        np.testing.assert_allclose(fast[metric], slow[metric], rtol=1e-6)


def test_ensemble_is_geometric_mean_and_majority_vote() -> None:
    deployment, plans = plans_of(3, 30)
    whole = model(CONFIGS["default"])
    ensemble = whole.ensembles[0]
    single = [
        LearnedCostModel("m", (Ensemble(METRICS, ensemble.config, ensemble.scaling, (member,), {}),)).predict(
            deployment, plans
        )
        for member in ensemble.members
    ]
    estimates = whole.predict(deployment, plans)
    for metric in METRICS:
        values = np.array([each[metric] for each in single])
        if metric in REGRESSION_METRICS:
            np.testing.assert_allclose(estimates[metric], np.exp(np.log(values).mean(axis=0)), rtol=1e-5)
        else:
            np.testing.assert_array_equal(estimates[metric] > 0.5, (values > 0.5).sum(axis=0) >= 2)
    logs = np.log([each["processing_latency_s"] for each in single])
    np.testing.assert_allclose(estimates.spread, logs.std(axis=0), rtol=1e-3, atol=1e-5)


def test_no_plans_no_estimates() -> None:
    deployment, _ = plans_of(3, 0)
    assert model(CONFIGS["default"]).predict(deployment, [])["success"].shape == (0,)


def test_plan_that_does_not_fit_is_named() -> None:
    deployment, plans = plans_of(3, 1)
    placement = dict(plans[0].placement)
    wrong = ExecutionPlan(placement={**placement, "source0": ("nowhere",)})
    with pytest.raises(BadInput, match="plan 0 uses the unknown host 'nowhere'"):
        model(CONFIGS["default"]).predict(deployment, [wrong])
    placement.pop("source0")
    with pytest.raises(BadInput, match="plan 0 places nothing for operator 'source0'"):
        model(CONFIGS["default"]).predict(deployment, [ExecutionPlan(placement=placement)])


def test_model_without_a_metric_says_so() -> None:
    deployment, plans = plans_of(3, 1)
    config = NetworkConfig(hidden=6, outputs=1)
    with pytest.raises(BadInput, match="does not predict processing_latency_s"):
        model(config, metrics=("throughput_per_s",)).predict(deployment, plans)


def drawn(seed: int) -> Deployment:
    """Random deployment of Costream's training space, where no operator maps, sums or counts."""
    return random_scenario(SPACES["costream"], seed, RunSettings()).deployment


def with_kinds(*kinds: str) -> Deployment:
    """Random deployment that has operators of all of these kinds."""
    every = (random_deployment(seed) for seed in range(1000))
    return next(each for each in every if set(kinds) <= {operator.kind for operator in each.query.operators})


@cache
def dataset() -> Dataset:
    return of_deployments([drawn(seed) for seed in range(60)], np.ones((60, 5)))


@cache
def learned() -> LearnedCostModel:
    """Untrained model that claims to be trained on the rows of `dataset`."""
    config = NetworkConfig(hidden=4, outputs=len(METRICS))
    scaling = Scaling((0.0,) * len(METRICS), (1.0,) * len(METRICS))
    manifest = {"seen": coverage_of(dataset().graphs)}
    return LearnedCostModel("tiny", (Ensemble(METRICS, config, scaling, (initial(config, 0),), manifest),))


def test_what_is_counted_over_a_table_is_what_its_queries_have() -> None:
    some = [drawn(1), random_deployment(3), with_kinds("map", "join")]
    one_by_one = [found_in(job_columns(each)) for each in some]
    counted = coverage_of(of_deployments(some, np.ones((3, 5))).graphs)
    assert {name for name in counted if name != "host"} == set().union(*one_by_one)
    assert counted["sink"] == sum(len(each.query.sinks) for each in some)
    rows = coverage_of(of_deployments(some, np.ones((3, 5))).graphs, np.array([1]))
    assert {name for name in rows if name != "host"} == one_by_one[1]


def test_costream_has_neither_maps_nor_measured_joins() -> None:
    seen = coverage_of(dataset().graphs)
    assert {"filter", "aggregate", "join"} <= seen.keys()
    assert not {"map", "join measured", "aggregate function sum"} & seen.keys()


def test_what_is_in_no_feature_is_said_and_the_horizon_of_the_training() -> None:
    """A model names what no feature shows; one that is told the rate model's answer sees what that sees."""
    plain = Scenario.of(drawn(7))
    assert learned().blind_to(plain) == ()
    paused = plain.engine.model_copy(update={"noise": Noise(gc_interval_s=2, gc_pause_s=1.5)})
    links = [Link(between=(one.name, "switch"), bandwidth_mbps=10, latency_ms=5) for one in plain.cluster.hosts]
    cluster = plain.cluster.model_copy(update={"links": tuple(links), "switches": ("switch",)})
    asked = Scenario(**{**dict(plain), "engine": paused, "cluster": cluster}).with_run(horizon_s=60)
    names = ["pauses", "links", "the horizon (it answers for runs of 240 s"]
    assert [words.partition(" (")[0] for words in learned().blind_to(asked)[:1]] == ["pauses"]
    assert all(any(words.startswith(name) for words in learned().blind_to(asked)) for name in names)
    estimates = with_estimates(learned())
    assert [words.partition(" (")[0] for words in estimates.blind_to(asked)] == ["the horizon"]


def with_estimates(model: LearnedCostModel) -> LearnedCostModel:
    """Model with networks that see the rate model's answer."""
    (ensemble,) = model.ensembles
    config = ensemble.config.model_copy(update={"estimates": True})
    return replace(model, ensembles=(replace(ensemble, config=config),))


def test_a_kind_or_word_of_no_training_row_is_refused() -> None:
    seen = drawn(7)
    refuse_unseen("tiny", learned().ensembles[0].seen, found_in(job_columns(seen)))
    mapping = with_kinds("map")
    with pytest.raises(BadInput, match=r"model 'tiny' never saw 'map'.*train it on runs that have it"):
        learned().predict(mapping, [mapping.plan])
    graphs = of_deployments([seen, mapping], np.ones((2, 5))).graphs
    with pytest.raises(BadInput, match="never saw 'map'"):
        learned().predict_graphs(graphs)
    assert not learned().knows(graphs)
    assert learned().knows(graphs.take(np.array([0])))
    with pytest.raises(BadInput, match=r"never saw 'join measured' \(nor filter function <\)"):
        refuse_unseen("m", {"filter": 3, "join": 2}, {"filter", "filter function <", "join", "join measured"})


def test_an_ordinary_job_of_further_kinds_is_refused_by_what_never_saw_them() -> None:
    """Its kinds are seen as others, and are none of these: neither side counts for the other."""
    job = job_columns(load("enrichment"))
    further = {*job.kinds} - {*LEARNED}
    assert further and {*job.node_types} <= {*LEARNED}
    needed = found_in(job)
    assert further <= needed and not {name for name in needed - further if name.partition(" ")[0] in further}
    seen_as = {node_type(kind): 100 for kind in further}
    assert further <= {*unseen(seen_as, needed)}
    graphs = of_deployments([load("enrichment").deployment], np.ones((1, 5))).graphs
    assert {name for name in coverage_of(graphs) if " " not in name} == {*job.kinds, "host"}
    assert {*unseen_rows(coverage_of(graphs), graphs)} == set()
    assert outside({}, job) == []


@pytest.mark.parametrize("kind", BY_KIND)
def test_every_kind_is_seen_as_one_that_models_know(kind: str) -> None:
    """Sources as sources, sinks as sinks, joins as joins, and what calls as what calls."""
    spec, seen_as = BY_KIND[kind], BY_KIND[node_type(kind)]
    assert seen_as.model_fields["kind"].default in LEARNED
    assert (spec.is_source, spec.is_sink) == (seen_as.is_source, seen_as.is_sink)
    assert spec.joins == seen_as.joins
