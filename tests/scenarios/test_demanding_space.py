"""What the space of demanding jobs draws: valid, reproducible, and what its documentation says."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from scenarios.learning import corpora
from scenarios.spaces.demanding import LENGTHS_S, RECORDS
from scenarios.spaces.families import DrawnScenarios
from twin.errors import BadInput
from twin.rates.model import RateModel


@pytest.fixture(scope="module")
def drawn():
    return [DrawnScenarios("demanding", 7)(index) for index in range(60)]


def test_the_same_index_is_the_same_scenario_and_another_is_another(drawn):
    assert DrawnScenarios("demanding", 7)(3) == drawn[3]
    assert len({each.model_dump_json() for each in drawn}) == len(drawn)


def test_it_holds_what_steady_rates_do_not_foresee(drawn):
    laws = Counter(law.law for job in drawn for law in job.workload.arrivals.values())
    assert min(laws[law] for law in ("poisson", "bursty", "spikes", "diurnal")) > 5
    assert laws["bursty"] > laws["poisson"]
    skews = [skew for job in drawn for skew in job.workload.keys.values()]
    assert all(skew.uneven for skew in skews)
    assert 0.1 < np.mean([skew.drift_every_s is not None for skew in skews]) < 0.7
    assert {job.engine.name for job in drawn} == {"storm", "worked-flink", "random"}
    kinds = Counter(each.kind for job in drawn for each in job.query.operators)
    assert min(kinds[kind] for kind in ("async", "map", "join", "aggregate")) > 5
    assert sum(bool(job.cluster.links) for job in drawn) > 3
    assert max(job.plan.replicas(each.name) for job in drawn for each in job.query.operators) == 8


def test_most_jobs_are_near_what_their_hosts_bear_and_runs_take_so_many_records(drawn):
    answers = [RateModel().answer(job, [job.plan]) for job in drawn]
    used = np.array([float(answer.offered_pressure.max()) for answer in answers])
    assert 0.5 < ((used > 0.65) & (used < 1.15)).mean() < 0.9
    lengths_s = np.array([job.run.horizon_s for job in drawn])
    assert lengths_s.min() >= LENGTHS_S[0] and lengths_s.max() <= LENGTHS_S[1]
    records = lengths_s * [float(answer.in_per_s.sum()) for answer in answers]
    assert np.median(records) < RECORDS[1]
    assert np.mean(records > 2 * RECORDS[1]) < 0.2  # of runs as short as may be


def test_peaks_leave_means_as_they_are(drawn):
    for job in drawn:
        for law in job.workload.arrivals.values():
            assert law.mean_rate_per_s <= law.peak_rate_per_s <= 8.5 * law.mean_rate_per_s


def test_a_corpus_of_it_has_a_specification_and_takes_no_scenario():
    make, spec = corpora.CorpusRecipe(5, seed=2, space="demanding").plan()
    assert make(4) == DrawnScenarios("demanding", 2)(4)
    assert spec.space == "demanding"
    with pytest.raises(BadInput, match="draws its own queries"):
        corpora.CorpusRecipe(5, seed=2, space="demanding", scenario="edge-filter").plan()
