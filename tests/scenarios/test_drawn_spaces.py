"""Spaces that draw engines, too: scenarios are valid, reproducible, and as documented."""

from __future__ import annotations

from collections import Counter
from functools import cache

import numpy as np
import pytest

from scenarios import learning
from scenarios.spaces.generator import random_engine
from scenarios.spaces.registry import DRAWN, drawn
from scenarios.spaces.wide import LENGTHS_S, LONGEST_S, RECORDS, SHORTEST_S
from twin.errors import BadInput
from twin.profiles import BRISK, FLINK, STORM
from twin.randomness import random_stream
from twin.rates.model import RateModel
from twin.scenario import Scenario

spaces = pytest.mark.parametrize("space", DRAWN)


@cache
def sixty(space: str) -> list[Scenario]:
    return [drawn(space, 7, index) for index in range(60)]


@spaces
def test_the_same_index_is_the_same_scenario_and_another_is_another(space):
    again = drawn(space, 7, 3)
    some = [drawn(space, 7, index) for index in range(15)] if space == "flink" else sixty(space)
    assert again == some[3]
    assert len({each.model_dump_json() for each in some}) == len(some)
    assert drawn(space, 8, 3) != again


@spaces
def test_a_corpus_of_it_has_a_specification_and_its_own_words_for_what_cannot_be(space):
    make, spec = learning.CorpusRecipe(5, seed=2, space=space).plan()
    assert make(4) == drawn(space, 2, 4)
    assert spec.space == space
    shorter, other = learning.CorpusRecipe(5, seed=2, space=space, horizon_s=9.0).plan()
    assert shorter(0).run.horizon_s == 9.0
    assert other.settings != spec.settings
    with pytest.raises(BadInput, match="draws its own queries"):
        learning.CorpusRecipe(5, seed=2, space=space, scenario="edge-filter").plan()


def test_wide_jobs_are_as_wide_as_they_say():
    kinds = Counter(each.kind for job in sixty("wide") for each in job.query.operators)
    assert min(kinds[kind] for kind in ("source", "filter", "map", "join", "aggregate", "sink")) > 10
    joins = [each for job in sixty("wide") for each in job.query.operators if each.joins]
    assert 0.1 < np.mean([each.amplification is not None for each in joins]) < 0.6
    parallelism = [job.plan.parallelism(each.name) for job in sixty("wide") for each in job.query.operators]
    assert set(parallelism) == {1, 2, 3, 4}
    assert 0.1 < np.mean([job.cluster.hosts[0].socket_count > 1 for job in sixty("wide")]) < 0.45
    horizons = [job.run.horizon_s for job in sixty("wide")]
    assert min(horizons) >= SHORTEST_S
    assert max(horizons) <= LONGEST_S
    assert max(horizons) / min(horizons) > 100


def test_plans_are_spread_over_both_sides_of_saturation():
    used = np.array([float(RateModel().answer(job, [job.plan]).offered_pressure.max()) for job in sixty("wide")])
    assert 0.4 < (used < 0.8).mean() < 0.8
    assert 0.1 < (used > 1.0).mean() < 0.45


def test_engines_span_three_decades_and_hold_the_known_ones():
    engines = [random_engine(random_stream(seed, "engine")) for seed in range(300)]
    costs = np.array([engine.record_us.source for engine in engines])
    for known in (STORM, FLINK, BRISK):
        assert costs.min() < known.record_us.source < costs.max()
    assert np.ptp(np.log10(costs)) > 2.5
    assert {engine.batch_records > 1 for engine in engines} == {True, False}
    assert any(engine.buffer_bytes for engine in engines)


def test_demanding_jobs_hold_what_steady_rates_do_not_foresee():
    laws = Counter(law.law for job in sixty("demanding") for law in job.workload.arrivals.values())
    assert min(laws[law] for law in ("poisson", "bursty", "spikes", "diurnal")) > 5
    assert laws["bursty"] > laws["poisson"]
    skews = [skew for job in sixty("demanding") for skew in job.workload.keys.values()]
    assert all(skew.uneven for skew in skews)
    assert 0.1 < np.mean([skew.drift_every_s is not None for skew in skews]) < 0.7
    assert {job.engine.name for job in sixty("demanding")} == {"storm", "worked-flink", "random"}
    kinds = Counter(each.kind for job in sixty("demanding") for each in job.query.operators)
    assert min(kinds[kind] for kind in ("async", "map", "join", "aggregate")) > 5
    assert sum(bool(job.cluster.links) for job in sixty("demanding")) > 3
    assert max(job.plan.parallelism(each.name) for job in sixty("demanding") for each in job.query.operators) == 8


def test_most_demanding_jobs_are_near_what_their_hosts_bear_and_runs_take_so_many_records():
    answers = [RateModel().answer(job, [job.plan]) for job in sixty("demanding")]
    used = np.array([float(answer.offered_pressure.max()) for answer in answers])
    assert 0.5 < ((used > 0.65) & (used < 1.15)).mean() < 0.9
    lengths_s = np.array([job.run.horizon_s for job in sixty("demanding")])
    assert lengths_s.min() >= LENGTHS_S[0] and lengths_s.max() <= LENGTHS_S[1]
    records = lengths_s * [float(answer.in_per_s.sum()) for answer in answers]
    assert np.median(records) < RECORDS[1]
    assert np.mean(records > 2 * RECORDS[1]) < 0.2  # of runs as short as may be


def test_peaks_leave_means_as_they_are():
    for job in sixty("demanding"):
        for law in job.workload.arrivals.values():
            assert law.mean_rate_per_s <= law.peak_rate_per_s <= 8.5 * law.mean_rate_per_s
