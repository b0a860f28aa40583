"""Tests of features of demand: how the rates of sources vary, and how uneven keys are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.job_columns import Bursts, job_columns, plan_physics, variations
from scenarios.spaces.registry import drawn
from tests.twin.worlds import chain, deployment, sink, source
from twin.arrivals.peaks import Peaks, peaks_of
from twin.job import compile
from twin.key_skew import KeySkew
from twin.rates.model import RateModel
from twin.workload import BurstState, Bursty, Constant, Diurnal, Poisson, Spikes, Step, Steps

SPIKES = Spikes(rate_per_s=10, factor=5, every_s=10, duration_s=2).model_dump()  # 18 a second on average


@pytest.mark.parametrize("law", [Poisson(rate_per_s=7), Constant(rate_per_s=7)])
def test_a_steady_law_has_no_peaks(law) -> None:
    assert peaks_of(law) == Peaks(1.0, 1.0, 0.0)


@given(st.floats(1.1, 20), st.floats(0.05, 0.5), st.floats(0.1, 50))
def test_of_spikes_and_of_random_bursts_they_are_what_the_law_says(factor: float, share: float, every_s: float) -> None:
    spikes = Spikes(rate_per_s=10, factor=factor, every_s=every_s, duration_s=share * every_s)
    found, mean = peaks_of(spikes), 1.0 + (factor - 1.0) * share
    assert (found.height, found.share, found.mean_s) == pytest.approx((factor / mean, share, share * every_s))
    states = (
        BurstState(rate_per_s=10, mean_s=(1 - share) * every_s),
        BurstState(rate_per_s=10 * factor, mean_s=share * every_s),
    )
    drawn = peaks_of(Bursty(states=states))
    assert (drawn.height, drawn.share, drawn.mean_s) == pytest.approx((factor / mean, share, share * every_s))


def test_of_a_wave_and_of_a_staircase() -> None:
    wave = peaks_of(Diurnal(rate_per_s=100, amplitude=0.5, period_s=60))
    assert (wave.height, wave.share, wave.mean_s) == pytest.approx((1 + 0.5 * 2 / np.pi, 0.5, 30), rel=0.01)
    stairs = Steps(steps=(Step(at_s=0, rate_per_s=10), Step(at_s=5, rate_per_s=30)))  # the last as long as the first
    assert peaks_of(stairs) == Peaks(1.5, 0.5, 5.0)


def test_a_mix_of_sources_has_lower_peaks_than_each() -> None:
    operators = [source("a"), source("b"), {"kind": "filter", "name": "f", "selectivity": 1}, sink()]
    job = deployment(operators, [("a", "f"), ("b", "f"), ("f", "sink")], {"a": SPIKES, "b": SPIKES})
    found = variations(compile(job).apart)[0]
    assert found["a"].peak == pytest.approx(50 / 18)
    assert found["sink"].peak == found["f"].peak == pytest.approx(1 + (50 / 18 - 1) / np.sqrt(2))
    assert found["f"].peak_s == pytest.approx(2.0)
    one = deployment(operators, [("a", "f"), ("b", "f"), ("f", "sink")], {"a": SPIKES, "b": 18})
    assert variations(compile(one).apart)[0]["f"].peak == pytest.approx(1 + (50 / 18 - 1) / 2)


def test_the_hottest_key_group_and_its_drift() -> None:
    window = {"policy": "time", "size_s": 1}
    sums = {"kind": "aggregate", "name": "sums", "window": window, "group_by": "int", "groups": 40, "key_groups": 4}
    job = chain([sums], 100.0)
    assert variations(compile(job).apart)[0]["sums"].hottest == 0.25
    keys = {"sums": KeySkew(zipf=1.0, drift_every_s=5.0)}
    job = job.model_copy(update={"workload": job.workload.model_copy(update={"keys": keys})})
    skewed = variations(compile(job).apart)[0]
    assert skewed["sums"].hottest == pytest.approx(1 / (1 + 1 / 2 + 1 / 3 + 1 / 4))
    assert (skewed["sums"].drifts_per_s, skewed["sink"].hottest) == (0.2, 0.0)


@pytest.mark.parametrize("index", range(6))
def test_what_is_used_at_peaks_is_no_less_than_on_average(index: int) -> None:
    job = drawn("demanding", 11, index)
    answer = RateModel().answer(job, [job.plan])
    found = {name: float(of_P[0]) for name, of_P in plan_physics(answer, job_columns(job), job.run.horizon_s).items()}
    assert found["peak_pressure"] >= found["utilisation"] > 0
    assert (found["peak_left_s"] > 0) == (
        found["peak_pressure"] > 1
        and any(law.peak_rate_per_s > law.mean_rate_per_s for law in job.workload.arrivals.values())
    )
    assert found["busiest"] >= 1


@given(
    st.lists(st.tuples(st.floats(0.1, 4.0), st.floats(0.0, 9.0), st.floats(0.1, 5.0)), min_size=1, max_size=6),
    st.floats(0.5, 3.0),
)
def test_bursts_of_independent_sources_add_up_by_squares(
    sources: list[tuple[float, float, float]], more: float
) -> None:
    """As deviations of independent sums do: two equal sources add sqrt(2) times what one does, and count as two."""
    work, excess, peak_s = map(np.array, zip(*sources, strict=True))
    each = Bursts(np.diag(excess), peak_s)
    added, count, seconds = each.on(work[None])
    assert added[0] == pytest.approx(np.sqrt(np.sum((work * excess) ** 2)))
    assert count[0] <= len(sources) * (1 + 1e-9)
    assert seconds[0] <= peak_s.max() * (1 + 1e-9)
    twice = Bursts(np.diag(np.tile(excess, 2)), np.tile(peak_s, 2)).on(np.tile(work, 2)[None])
    assert (twice[0][0], twice[1][0]) == (pytest.approx(np.sqrt(2) * added[0]), pytest.approx(2 * count[0]))
    assert each.on(more * work[None])[0][0] == pytest.approx(more * added[0])
