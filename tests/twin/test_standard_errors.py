"""Standard errors of one run's means: against the scatter of many, and against theory of known series."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tests.twin.test_joins import star
from tests.twin.worlds import chain, queue, simulated
from twin.deployment import Deployment
from twin.histograms import GROWTH, bucket, quantile_s
from twin.metrics import (
    ERRORS,
    FEWEST_BATCHES,
    MOST_BATCHES,
    NO_ERRORS,
    edges_s,
    few_results,
    ratio_error,
)
from twin.randomness import random_stream
from twin.run import Run
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate
from twin.workload import Poisson

SEEDS = 40
WINDOW: dict[str, Any] = {"policy": "time", "size_s": 1.0, "slide_s": 0.25}
COUNTS = {"kind": "aggregate", "name": "w", "window": WINDOW, "group_by": "int", "groups": 50, "service_time_s": 1e-4}
JOBS: dict[str, Deployment] = {
    "queue": queue(40, 0.6, 1),
    "keyed window": chain([COUNTS], 40.0),
    "join with few matches": star(
        {"a": 10, "b": 20, "c": 30}, {"policy": "time", "size_s": 1.0, "slide_s": 0.5}, selectivity=5e-5
    ),
}


class Sample(NamedTuple):
    """T, mean Lp and mean Le of as many runs, and their standard errors. [SEEDS, 3]"""

    values: np.ndarray
    errors: np.ndarray


@pytest.fixture(scope="module", params=JOBS)
def sample(request: pytest.FixtureRequest) -> Sample:
    job = JOBS[request.param]
    runs = [simulated(job, **SHORT, seed=seed) for seed in range(SEEDS)]
    return Sample(np.array([means(run) for run in runs]), np.array([errors(run) for run in runs]))


SHORT: dict[str, Any] = {"horizon_s": 130, "warmup_s": 10}


def means(run: Run) -> tuple[float, float, float]:
    metrics = run.metrics
    return metrics.throughput_per_s, metrics.processing_latency_s.mean, metrics.e2e_latency_s.mean


def errors(run: Run) -> list[float]:
    return [math.nan if each is None else each for each in vars_of(run.standard_errors)]


def vars_of(record: Any) -> tuple[float | None, ...]:
    return record.throughput_per_s, record.processing_latency_s, record.e2e_latency_s


@pytest.mark.slow
def test_intervals_hold_the_long_run_mean(sample: Sample) -> None:
    """Two standard errors hold the mean in a binomial share of runs, 90 % at least; no error is too wide by half."""
    mean = sample.values.mean(axis=0)
    held = (np.abs(sample.values - mean) <= ERRORS * sample.errors).sum(axis=0)
    assert (held >= stats.binom.ppf(1e-4, SEEDS, 0.90)).all(), held
    variances = (sample.errors**2).mean(axis=0) / sample.values.var(axis=0, ddof=1)
    scatter = 4 * math.sqrt(2 / (SEEDS - 1))
    assert (np.log(variances) < math.log(1.5) + scatter).all(), variances
    assert (np.log(variances) > -scatter).all(), variances


# series of known variance ---------------------------------------------------------------------------------------------


def squares(make: Any, repetitions: int = 600) -> tuple[float, float]:
    """Ratio of the estimated variance of a mean to the actual one; and the ratio's standard error, about."""
    found, means_ = [], []
    for _ in range(repetitions):
        series = make()
        found.append((ratio_error(series, np.ones(len(series))) or 0.0) ** 2)
        means_.append(series.mean())
    return float(np.mean(found)) / float(np.var(means_)), math.sqrt(2 / repetitions)


def moving_average(share: float) -> Any:
    """Function that makes series in which each batch has a share of the noise of the one before."""
    rng = random_stream(0, "batches")

    def series() -> np.ndarray:
        noise = rng.normal(size=25)
        return noise[1:] + share * noise[:-1]

    return series


@pytest.mark.parametrize(
    ("share", "repetitions", "low", "high"), [(0.0, 600, 0.95, 1.15), (0.25, 1200, 0.95, 1.15), (1.0, 600, 0.75, 1.3)]
)
def test_batches_that_hang_together_are_no_surer(share: float, repetitions: int, low: float, high: float) -> None:
    """Variances are right for independent batches; for weakly correlated ones, which are not joined and would without
    the correction have two thirds of their variance; and for moving averages of two, which would have half."""
    found, error = squares(moving_average(share), repetitions)
    assert low - 4 * error < found < high + 4 * error


def test_batches_that_make_up_for_each_other_leave_no_error() -> None:
    assert ratio_error(np.tile([1.0, 3.0], 12), np.ones(24)) == pytest.approx(0.0, abs=1e-12)
    assert ratio_error(np.full(24, 7.0), np.ones(24)) == 0.0


def test_a_ratio_knows_that_its_parts_go_together() -> None:
    """The ratio of sums that are exactly five times the counts is certain."""
    counts = random_stream(0, "counts").poisson(20, size=24).astype(float)
    assert ratio_error(5.0 * counts, counts) == pytest.approx(0.0, abs=1e-12)
    assert ratio_error(np.zeros(24), np.zeros(24)) is None


def test_the_order_of_independent_batches_matters_little_and_units_scale() -> None:
    rng = random_stream(0, "order")
    above, below = rng.gamma(4.0, size=24), rng.gamma(9.0, size=24)
    error = ratio_error(above, below)
    assert error
    assert ratio_error(1000 * above, below) == pytest.approx(1000 * error)
    assert ratio_error(above, 10 * below) == pytest.approx(error / 10)
    assert ratio_error(above[::-1], below[::-1]) == pytest.approx(error)


# batches --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("memory_s", [0.0, 1.0, 7.3])
@pytest.mark.parametrize("slides", [(), (0.25,), (3.0,), (2.0, 3.0), (0.3, 7.0)])
def test_batches_are_whole_slides_no_shorter_than_the_memory(memory_s: float, slides: tuple[float, ...]) -> None:
    edges = edges_s(13.0, 130.0, memory_s, slides)
    lengths = np.diff(edges)
    assert FEWEST_BATCHES <= len(lengths) <= MOST_BATCHES
    assert edges[-1] == 130.0 and edges[0] >= 13.0
    assert lengths == pytest.approx(lengths[0]) and lengths[0] >= memory_s - 1e-9
    if slides:
        assert lengths[0] / max(slides) == pytest.approx(round(lengths[0] / max(slides)))


def test_too_few_batches_are_none() -> None:
    assert edges_s(0.0, 59.0, 10.0, ()) == ()
    assert edges_s(0.0, 59.0, 0.0, (10.0,)) == ()
    assert len(edges_s(0.0, 60.0, 10.0, ())) == 7


# runs -----------------------------------------------------------------------------------------------------------------


def test_periods_do_not_matter() -> None:
    job = queue(100, 0.7, 1)
    settings = RunSettings(horizon_s=60, warmup_s=10, period_s=10)
    a, b = (simulate(Scenario.of(job, settings.model_copy(update={"period_s": each}))) for each in (10.0, 2.5))
    assert errors(a) == pytest.approx(errors(b), rel=1e-6)


def test_where_an_error_would_mean_nothing_there_is_none() -> None:
    behind = simulated(queue(100, 1.3, 1), horizon_s=60)
    assert behind.metrics.backpressured and behind.standard_errors.e2e_latency_s is None
    assert behind.standard_errors.throughput_per_s
    rising = {"law": "diurnal", "rate_per_s": 100.0, "period_s": 60}
    assert all(each is None for each in vars_of(simulated(chain([], rising)).standard_errors))
    wide = chain([COUNTS | {"window": {"policy": "time", "size_s": 20.0}}], 40.0)
    assert all(each is None for each in vars_of(simulated(wide, horizon_s=60).standard_errors))
    silent = chain([{"kind": "filter", "name": "f", "selectivity": 0}], 10)
    assert simulated(silent, horizon_s=60).standard_errors.processing_latency_s is None


def test_few_results_are_warned_of() -> None:
    rare = chain([{"kind": "filter", "name": "f", "selectivity": 0.01}], 100.0)
    run = simulated(rare, horizon_s=60)
    assert any("few results" in line for line in run.warnings)
    assert few_results(run.metrics.throughput_per_s, run.standard_errors)
    often = rare.model_copy(update={"workload": rare.workload.model_copy(update={"arrivals": {"source": FAST}})})
    assert simulated(often, horizon_s=60).warnings == ()


@pytest.mark.parametrize(
    ("window", "span"),
    [({"size_s": 20.0}, (0.0, 60.0)), ({"size_s": 2.0, "slide_s": 0.7}, (1.3, 9.0)), ({"size_s": 3.0}, (10.0, 20.0))],
)
def test_a_run_too_short_for_errors_says_how_long_one_has_them(
    window: dict[str, float], span: tuple[float, float]
) -> None:
    job = chain([COUNTS | {"window": {"policy": "time", **window}}], 40.0)
    (line,) = (each for each in simulated(job, warmup_s=span[0], horizon_s=span[1]).warnings if NO_ERRORS in each)
    long_s = float(line.split("run.horizon_s ")[1].split()[0])
    for horizon_s, known in ((long_s, True), (0.97 * long_s, False)):
        run = simulated(job, warmup_s=span[0], horizon_s=horizon_s)
        assert (run.standard_errors.throughput_per_s is not None) is known
        assert any(NO_ERRORS in each for each in run.warnings) is not known


FAST = Poisson(rate_per_s=10_000.0)


def test_the_document_has_them_beside_the_metrics() -> None:
    document = simulated(queue(100, 0.5, 1), horizon_s=60).to_dict()
    assert set(document["standard_errors"]) == {"throughput_per_s", "processing_latency_s", "e2e_latency_s"}
    assert 0 < document["standard_errors"]["throughput_per_s"] < 0.1 * document["throughput_per_s"]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(1e-5, 1e4), min_size=1, max_size=200), st.sampled_from([0.5, 0.95, 0.99]))
def test_sketch_quantiles_are_within_half_its_growth(latencies: list[float], q: float) -> None:
    histogram: dict[int, int] = {}
    for latency in latencies:
        histogram[bucket(latency)] = histogram.get(bucket(latency), 0) + 1
    exact = sorted(latencies)[math.ceil(q * len(latencies)) - 1]
    assert quantile_s(histogram, q) == pytest.approx(exact, rel=math.sqrt(GROWTH) - 1 + 1e-9)
