"""Tests of waits for what gathers at peaks, beside fluids that are followed peak by peak, and beside runs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.twin.worlds import chain
from twin.checkpoints import Checkpoints
from twin.deployment import Deployment
from twin.profiles import Noise
from twin.rates.bursts import MixedPeaks, backlog
from twin.rates.channels import MeasuredSpan
from twin.rates.model import RateModel
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate
from twin.workload import BurstState, Bursty, Diurnal, Workload

LONG = MeasuredSpan(1e8, 2e8)
CYCLES = 400_000
ERRORS = 4.0


def peaks(height: float, share: float, mean_s: float, scv: float = 1.0, gap_scv: float = 1.0) -> MixedPeaks:
    return MixedPeaks(*(np.array([each]) for each in (height, share, mean_s, scv, gap_scv)))


def followed(load: float, height: float, share: float, mean_s: float, *, random: bool) -> tuple[float, float]:
    """Mean work that a record finds, and its standard error, in a fluid that is followed over many peaks."""
    rng = np.random.default_rng(1)
    gap_s = mean_s * (1.0 - share) / share
    ups_s, downs_s = (rng.exponential(each, CYCLES) if random else np.full(CYCLES, each) for each in (mean_s, gap_s))
    up, down = load * height - 1.0, 1.0 - load * (1.0 - height * share) / (1.0 - share)
    rates = np.array([height, (1.0 - height * share) / (1.0 - share)])
    net = np.cumsum(up * ups_s - down * downs_s)
    before = np.concatenate([[0.0], net[:-1]])
    start = before - np.minimum.accumulate(np.minimum(before, 0.0))
    top = start + up * ups_s
    end = np.maximum(top - down * downs_s, 0.0)
    areas = rates[0] * (start + top) / 2.0 * ups_s + rates[1] * (top**2 - end**2) / 2.0 / down
    records = rates[0] * ups_s + rates[1] * downs_s
    parts = [np.array_split(each, 50) for each in (areas, records)]
    means = np.array([a.sum() / r.sum() for a, r in zip(*parts, strict=True)])
    return float(areas.sum() / records.sum()), float(means.std() / np.sqrt(len(means) - 1))


@pytest.mark.parametrize("random", [True, False])
@pytest.mark.parametrize(("load", "height", "share"), [(0.5, 4.0, 0.2), (0.8, 2.0, 0.3), (0.6, 1.8, 0.4)])
def test_the_work_that_a_record_finds_is_that_of_a_fluid(
    load: float, height: float, share: float, random: bool
) -> None:
    """Exponential times and times that are always the same are the exact cases of Kingman's law here."""
    found, error = followed(load, height, share, 0.5, random=random)
    scv = float(random)
    said = backlog(np.array([load]), peaks(height, share, 0.5, scv, scv), LONG).total_s[0]
    assert said == pytest.approx(found, abs=ERRORS * error + 1e-9)


def test_above_a_load_of_1_it_is_what_bursts_add_to_the_mean_load() -> None:
    """Of records that are read in a run of 200 s, over 2,000 runs: 1.2 seconds of work come each second, in peaks of
    half a second; at the mean load, a record that is read at s has waited for s / 6."""
    rng, load, height, share, peak_s, run_s = np.random.default_rng(3), 1.2, 3.0, 0.2, 0.5, 200.0
    more = []
    for _ in range(2000):
        peaks_s, gaps_s = rng.exponential(peak_s, 400), rng.exponential(peak_s / share * (1.0 - share), 400)
        ends_s = np.cumsum(np.stack([gaps_s, peaks_s], axis=1).ravel())
        steps_s = np.arange(0.0, run_s, 0.02)
        high = np.searchsorted(ends_s, steps_s, side="right") % 2 == 1
        came = load * np.where(high, height, (1.0 - height * share) / (1.0 - share))
        net = np.cumsum((came - 1.0) * 0.02)
        work = net - np.minimum.accumulate(np.minimum(net, 0.0))
        read_s = steps_s + work
        done = read_s <= run_s
        more.append([(came * (work - read_s * (1.0 - 1.0 / load)))[done].sum(), came[done].sum()])
    parts = [np.array(part).sum(axis=0) for part in np.array_split(np.array(more), 40)]
    means = np.array([extra / records for extra, records in parts])
    said = backlog(np.array([load]), peaks(height, share, peak_s), MeasuredSpan(0.0, run_s)).total_s[0]
    assert said == pytest.approx(means.mean(), rel=0.1), (said, means.mean(), means.std() / 40**0.5)


@given(st.floats(0.05, 2.0), st.floats(1.0, 20.0), st.floats(0.02, 0.9), st.floats(1e-3, 100.0), st.floats(0.1, 1e4))
def test_it_is_finite_never_negative_and_no_more_than_its_parts(
    load: float, height: float, share: float, mean_s: float, run_s: float
) -> None:
    mixed = peaks(1.0 + (height - 1.0) * (1.0 - share), share, mean_s)
    found = backlog(np.array([load]), mixed, MeasuredSpan(0.0, run_s))
    assert np.isfinite([found.total_s, found.within(np.array([1.0])), found.beyond(np.array([1.0]))]).all()
    for less, more in ((0.0, 0.5), (0.5, 2.0)):
        assert 0.0 <= found.within(np.array([less])) <= found.within(np.array([more])) <= found.total_s + 1e-12
        assert 1.0 >= found.beyond(np.array([less])) >= found.beyond(np.array([more])) >= 0.0
    if load * mixed.height[0] <= 1.0 and load < 1.0:
        assert found.total_s == 0.0
    longer = backlog(np.array([load]), mixed, MeasuredSpan(0.0, 2.0 * run_s))
    assert longer.total_s >= found.total_s * (1.0 - 1e-9)


def of_bursts(job: Deployment, high: tuple[float, float], low: tuple[float, float], run_s: float) -> Scenario:
    """Scenario of a job whose source has these rates and mean seconds in turn."""
    states = tuple(BurstState(rate_per_s=rate, mean_s=mean_s) for rate, mean_s in (high, low))
    job = job.model_copy(update={"workload": Workload(arrivals={"source": Bursty(states=states)})})
    return Scenario.of(job, RunSettings(horizon_s=run_s, period_s=run_s / 4))


def over_seeds(scenario: Scenario, seeds: int, value: str) -> np.ndarray:
    runs = (simulate(scenario.with_run(seed=seed)) for seed in range(seeds))
    return np.array([run.metrics.value(value) for run in runs])


@pytest.mark.parametrize(("high_per_s", "high_s"), [(1600.0, 0.1), (2500.0, 0.3)])
def test_records_wait_in_runs_as_long_as_it_says(high_per_s: float, high_s: float) -> None:
    """In the job as far as there is room, and at the broker beyond; so the age since generation has all of it."""
    work = {"kind": "filter", "name": "work", "selectivity": 1.0, "service_time_s": 1e-3}
    scenario = of_bursts(chain([work], 100.0), (high_per_s, high_s), (100.0, 1.0), 400.0)
    said = RateModel().answer(scenario, [scenario.plan]).costs
    for metric in ("e2e_latency_s", "processing_latency_s"):
        runs = over_seeds(scenario, 8, metric)
        error = runs.std(ddof=1) / np.sqrt(len(runs))
        assert said[metric][0] == pytest.approx(runs.mean(), abs=ERRORS * error + 0.1 * runs.mean()), metric


def test_what_checkpoints_do_on_threads_is_not_done_for_records() -> None:
    """A filter that could do 1,000 records a second has time for 900: a tenth goes to checkpoints."""
    work = {"kind": "filter", "name": "work", "selectivity": 1.0, "service_time_s": 1e-3}
    job = Scenario.of(chain([work], 940.0), RunSettings(horizon_s=200.0, period_s=50.0))
    scenario = job.model_copy(update={"checkpoints": Checkpoints(interval_s=1.0, sync_ms=100.0)})
    said, run = RateModel().answer(scenario, [scenario.plan]).costs, simulate(scenario).metrics
    assert run.backpressured and said["backpressured"][0] > 0.5
    assert said["throughput_per_s"][0] == pytest.approx(run.throughput_per_s, rel=0.02)
    assert (
        not simulate(job).metrics.backpressured and RateModel().answer(job, [job.plan]).costs["backpressured"][0] < 0.5
    )


def test_records_wait_while_a_host_pauses_and_then_for_each_other() -> None:
    """Pauses of half a second every two seconds, on a host that is busy for a third of the rest."""
    work = {"kind": "filter", "name": "work", "selectivity": 1.0, "service_time_s": 1e-3}
    job = chain([work], 300.0)
    noise = Noise(gc_interval_s=2.0, gc_pause_s=0.5)
    job = job.model_copy(update={"engine": job.engine.model_copy(update={"noise": noise})})
    scenario = Scenario.of(job, RunSettings(horizon_s=400.0, period_s=100.0))
    said = RateModel().answer(scenario, [scenario.plan]).costs
    for metric in ("e2e_latency_s", "processing_latency_s"):
        runs = over_seeds(scenario, 6, metric)
        assert said[metric][0] == pytest.approx(runs.mean(), rel=0.3), metric
    still = scenario.with_run(noise=False)
    assert RateModel().answer(still, [still.plan]).costs["e2e_latency_s"][0] < said["e2e_latency_s"][0] / 10.0


def test_behind_windows_over_time_records_come_as_these_end() -> None:
    window = {"kind": "aggregate", "name": "sums", "window": {"policy": "time", "size_s": 1.0, "slide_s": 0.1}}
    filtered = {"kind": "filter", "name": "work", "selectivity": 1.0, "service_time_s": 1.5e-3}
    operators = [window | {"group_by": "int", "groups": 50, "service_time_s": 1e-5}, filtered]
    scenario = of_bursts(chain(operators, 100.0), (1600.0, 0.3), (200.0, 1.0), 100.0)
    said = RateModel().answer(scenario, [scenario.plan]).costs["result_delay_s"][0]
    assert said == pytest.approx(over_seeds(scenario, 3, "result_delay_s").mean(), rel=0.3)


def test_a_run_of_minutes_has_no_day() -> None:
    """A source whose rate rises above what the job bears for hours, in a run of four minutes."""
    work = {"kind": "filter", "name": "work", "selectivity": 1.0, "service_time_s": 1e-3}
    law = Diurnal(rate_per_s=850, amplitude=0.5, period_s=86400)
    job = chain([work], 850.0).model_copy(update={"workload": Workload(arrivals={"source": law})})
    scenario = Scenario.of(job, RunSettings(horizon_s=240.0, period_s=60.0))
    said = RateModel().answer(scenario, [scenario.plan]).costs
    assert said["throughput_per_s"][0] == pytest.approx(850.0, rel=0.01) and said["e2e_latency_s"][0] < 0.1
    assert any("few peaks of source" in words for words in RateModel().blind_to(scenario))


def test_the_work_of_a_checkpoint_is_done_in_turn_before_the_next() -> None:
    """Eight tasks with a core each, of 30 ms a checkpoint, which last as long together, not an interval of 100 ms."""
    work = [{"kind": "filter", "name": f"work-{k}", "selectivity": 1.0, "service_time_s": 6e-3} for k in range(6)]
    scenario = Scenario.of(chain(work, 100.0), RunSettings(horizon_s=100.0, period_s=25.0))
    scenario = scenario.model_copy(update={"checkpoints": Checkpoints(interval_s=0.1, sync_ms=30.0)})
    said, run = RateModel().answer(scenario, [scenario.plan]).costs, simulate(scenario).metrics
    assert not run.backpressured and said["backpressured"][0] < 0.5
    assert said["processing_latency_s"][0] == pytest.approx(run.value("processing_latency_s"), rel=0.3)
