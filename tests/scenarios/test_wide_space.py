"""What the space of the shipped model draws: valid, reproducible, and as wide as it says."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from scenarios.learning import corpora
from scenarios.spaces.families import DrawnScenarios
from scenarios.spaces.random_engine import random_engine
from scenarios.spaces.wide import LONGEST_S, SHORTEST_S
from twin.errors import BadInput
from twin.profiles import BRISK, FLINK, STORM
from twin.randomness import stream
from twin.rates.model import RateModel


@pytest.fixture(scope="module")
def drawn():
    return [DrawnScenarios("wide", 7)(index) for index in range(80)]


def test_the_same_index_is_the_same_scenario_and_another_is_another(drawn):
    again = DrawnScenarios("wide", 7)(3)
    assert again == drawn[3]
    assert len({each.model_dump_json() for each in drawn}) == len(drawn)
    assert DrawnScenarios("wide", 8)(3) != again


def test_it_holds_what_it_says(drawn):
    kinds = Counter(each.kind for job in drawn for each in job.query.operators)
    assert min(kinds[kind] for kind in ("source", "filter", "map", "join", "aggregate", "sink")) > 10
    joins = [each for job in drawn for each in job.query.operators if each.joins]
    assert 0.1 < np.mean([each.amplification is not None for each in joins]) < 0.6
    replicas = [job.plan.replicas(each.name) for job in drawn for each in job.query.operators]
    assert set(replicas) == {1, 2, 3, 4}
    assert 0.1 < np.mean([job.cluster.hosts[0].socket_count > 1 for job in drawn]) < 0.45
    horizons = [job.run.horizon_s for job in drawn]
    assert min(horizons) >= SHORTEST_S
    assert max(horizons) <= LONGEST_S
    assert max(horizons) / min(horizons) > 100


def test_plans_are_spread_over_both_sides_of_saturation(drawn):
    used = np.array([float(RateModel().answer(job, [job.plan]).offered_pressure.max()) for job in drawn])
    assert 0.4 < (used < 0.8).mean() < 0.8
    assert 0.1 < (used > 1.0).mean() < 0.45


def test_engines_span_three_decades_and_hold_the_known_ones():
    engines = [random_engine(stream(seed, "engine")) for seed in range(300)]
    costs = np.array([engine.tuple_us.source for engine in engines])
    for known in (STORM, FLINK, BRISK):
        assert costs.min() < known.tuple_us.source < costs.max()
    assert np.ptp(np.log10(costs)) > 2.5
    assert {engine.batch_tuples > 1 for engine in engines} == {True, False}
    assert any(engine.buffer_bytes for engine in engines)


def test_a_corpus_of_it_has_a_specification_and_its_own_words_for_what_cannot_be():
    make, spec = corpora.CorpusRecipe(5, seed=2, space="wide").plan()
    assert make(4) == DrawnScenarios("wide", 2)(4)
    assert spec.space == "wide"
    shorter, other = corpora.CorpusRecipe(5, seed=2, space="wide", horizon_s=9.0).plan()
    assert shorter(0).run.horizon_s == 9.0
    assert other.settings != spec.settings
    with pytest.raises(BadInput, match="draws its own queries"):
        corpora.CorpusRecipe(5, seed=2, space="wide", scenario="edge-filter").plan()
