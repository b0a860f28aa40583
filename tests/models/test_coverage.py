"""A model answers for the kinds and words of its training rows, and refuses all others by name."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from models.checkpoint import Ensemble
from models.coverage import coverage_of, found_in, outside, refuse_unseen
from models.dataset import Dataset, of_deployments
from models.features import require_learned
from models.gnn import initial
from models.job_columns import job_columns
from models.labels import Scaling
from models.prediction import LearnedCostModel
from models.settings import NetworkConfig
from scenarios.files.scenario_file import load
from scenarios.spaces.generator import random_scenario
from scenarios.spaces.registry import SPACES
from tests.models.deployments import random_deployment
from twin.cluster import Link
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.metrics import METRICS
from twin.profiles import Noise
from twin.scenario import RunSettings, Scenario


def drawn(seed: int) -> Deployment:
    """Of the training space of Costream, where no operator maps, sums or counts."""
    return random_scenario(SPACES["costream"], seed, RunSettings()).deployment


def with_kinds(*kinds: str) -> Deployment:
    """A deployment that has all of these."""
    every = (random_deployment(seed) for seed in range(1000))
    return next(each for each in every if set(kinds) <= {operator.kind for operator in each.query.operators})


@cache
def dataset() -> Dataset:
    return of_deployments([drawn(seed) for seed in range(60)], np.ones((60, 5)))


@cache
def model() -> LearnedCostModel:
    """Not trained, but as if it had been on those rows."""
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
    """A model that is told the rate model's answer sees through it what that sees."""
    plain = Scenario.of(drawn(7))
    assert model().blind_to(plain) == ()
    paused = plain.engine.model_copy(update={"noise": Noise(gc_interval_s=2, gc_pause_s=1.5)})
    links = [Link(between=(one.name, "switch"), bandwidth_mbps=10, latency_ms=5) for one in plain.cluster.hosts]
    cluster = plain.cluster.model_copy(update={"links": tuple(links), "switches": ("switch",)})
    asked = Scenario(**{**dict(plain), "engine": paused, "cluster": cluster}).with_run(horizon_s=60)
    names = ["pauses", "links", "the horizon (it answers for runs of 240 s"]
    assert [words.partition(" (")[0] for words in model().blind_to(asked)[:1]] == ["pauses"]
    assert all(any(words.startswith(name) for words in model().blind_to(asked)) for name in names)
    estimates = with_estimates(model())
    assert {words.partition(" ")[0] for words in estimates.blind_to(asked)} == {"pauses", "the"}


def with_estimates(model: LearnedCostModel) -> LearnedCostModel:
    """The same with networks that see the rate model's answer."""
    (ensemble,) = model.ensembles
    config = ensemble.config.model_copy(update={"estimates": True})
    return replace(model, ensembles=(replace(ensemble, config=config),))


def test_a_kind_or_word_of_no_training_row_is_refused() -> None:
    seen = drawn(7)
    refuse_unseen("tiny", model().ensembles[0].seen, found_in(job_columns(seen)))
    mapping = with_kinds("map")
    with pytest.raises(BadInput, match=r"model 'tiny' never saw 'map'.*train it on runs that have it"):
        model().predict(mapping, [mapping.plan])
    graphs = of_deployments([seen, mapping], np.ones((2, 5))).graphs
    with pytest.raises(BadInput, match="never saw 'map'"):
        model().predict_graphs(graphs)
    assert not model().knows(graphs)
    assert model().knows(graphs.take(np.array([0])))
    with pytest.raises(BadInput, match=r"never saw 'join measured' \(nor filter function <\)"):
        refuse_unseen("m", {"filter": 3, "join": 2}, {"filter", "filter function <", "join", "join measured"})


def test_an_ordinary_job_of_further_kinds_is_refused() -> None:
    job = load("enrichment")
    with pytest.raises(BadInput, match="know no operators of kind 'kafka-source'"):
        outside({}, job_columns(job))
    for kind in {*job_columns(job).kinds} - {"sink", "map"}:
        with pytest.raises(BadInput, match=f"know no operators of kind '{kind}'"):
            require_learned([kind])
