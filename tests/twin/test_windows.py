"""Windows of records with keys, against brute force; and throughput of windowed jobs by arithmetic, however long."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as tried
from hypothesis import strategies as st

from tests.twin.checkpointed import lines
from tests.twin.checkpointed import run as committed
from tests.twin.evaluated import evaluations
from tests.twin.worlds import chain, deployment, simulated, sink, source, world_of
from twin.deployment import Deployment
from twin.events import RateChange
from twin.key_skew import key_groups_of_keys, zipf_shares
from twin.operators.key_groups import landed
from twin.profiles import STORM
from twin.run import Run
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate
from twin.spec import parse


@tried(max_examples=15, deadline=None)
@given(st.integers(1, 30), st.sampled_from([0.3, 1.0, 1.3, 4.0]), st.floats(1.0, 200.0), st.integers(0, 99))
def test_a_window_has_a_result_a_key(groups: int, size_s: float, rate_per_s: float, seed: int) -> None:
    """Each is as old as the oldest record of its key in the window; they leave in the order of their keys."""
    span = {"policy": "time", "size_s": size_s, "slide_s": min(size_s, 0.5)}
    middle = {"kind": "aggregate", "name": "w", "window": span, "group_by": "int", "groups": groups}
    for _, (records,), results in evaluations(chain([middle], rate_per_s), "w", 6.0, seed):
        expected = {
            key: tuple(min(each[place] for each in records if each[0] == key) for place in (1, 2))
            for key in {key for key, *_ in records}
        }
        assert results == [(key, *expected[key]) for key in sorted(expected)]


def test_what_is_forgotten_is_thrown_away() -> None:
    """A window of 200 records has room for a few times as many, however long the run."""
    middle = {"kind": "aggregate", "name": "w", "window": {"policy": "time", "size_s": 0.2}, "service_time_s": 0.0}
    world = world_of(chain([middle], 1000.0))
    world.advance(20.1)
    (content,) = world.tasks["w"][0].logic.part(0).window.contents
    assert 50 < content.count < 200 and content.room < 1500


def grouped(window: dict[str, Any], skew: dict[str, Any], groups: int, **more: Any) -> Deployment:
    """Job of a window of groups in as many key groups; service takes no time."""
    operator = {"kind": "aggregate", "name": "m", "window": window, "group_by": "int", "groups": groups}
    operator |= {"key_groups": groups, "service_time_s": 0.0} | more
    return chain([operator], 200.0, keys={"m": skew})


def followed(shares: np.ndarray, per_window: float, windows: int) -> tuple[np.ndarray, np.ndarray]:
    """Groups in each of some windows, and the mean age of their oldest records, as parts of the window."""
    rng, counts, ages = np.random.default_rng(7), np.zeros(windows), np.zeros(windows)
    for number in range(windows):
        keys = rng.choice(len(shares), rng.poisson(per_window), p=shares)
        oldest = np.zeros(len(shares))
        np.maximum.at(oldest, keys, rng.random(len(keys)))
        seen = np.unique(keys)
        counts[number], ages[number] = len(seen), oldest[seen].sum()
    return counts, ages


@pytest.mark.parametrize("zipf", [0.0, 1.0, 2.0])
def test_results_of_skewed_groups_are_as_many_and_as_old_as_real_ones(zipf: float) -> None:
    """Frequent groups have old records, rare ones may be missing; 8 windows of 5 s, eight times."""
    made = grouped({"policy": "time", "size_s": 5.0}, {"zipf": zipf}, 300)
    counts, ages = followed(zipf_shares(300, zipf), 1000.0, 3000)
    rates, latencies = [], []
    for seed in range(8):
        run = simulated(made, horizon_s=42.0, warmup_s=2.0, period_s=2.0, seed=seed)
        rates.append(run.metrics.throughput_per_s * 40.0 / 8)
        latencies.append(run.metrics.processing_latency_s.mean)
    for found, expected in ((rates, counts.mean()), (latencies, 5.0 * ages.sum() / counts.sum())):
        assert abs(np.mean(found) - expected) < 4 * np.std(found, ddof=1) / np.sqrt(8) + 0.002 * expected


def test_keys_that_are_given_come_as_often_as_they_should() -> None:
    """Given keys are where Flink puts them, each as frequent as given, alone or beside others."""
    made = grouped({"policy": "count", "size_records": 10}, {"keys": 50, "zipf": 1.0}, 50, key_groups=8)
    keys = world_of(made).key_groups["m"]
    rng, n = np.random.default_rng(3), 40_000
    landing = [landed(keys.group_steps, uniform) for uniform in rng.random(n).tolist()]
    drawn = [(group, keys.key_in(group, at)) for group, at in landing]
    group_k = key_groups_of_keys(np.arange(50), "int", 8)
    shares = zipf_shares(50, 1.0)[np.argsort(group_k, kind="stable")]
    counts = np.bincount([key for _, key in drawn], minlength=50)
    assert np.all(np.abs(counts - n * shares) < 5 * np.sqrt(n * shares))
    assert all(group == np.sort(group_k)[key] == keys.group_of(key) for group, key in drawn[:2000])


def test_state_of_key_groups_is_what_windows_hold_of_them() -> None:
    made = grouped({"policy": "time", "size_s": 1000.0}, {"zipf": 1.0}, 40)
    built = world_of(made, RunSettings(horizon_s=50.0))
    built.advance(20.0)
    keys, (task,) = built.key_groups["m"], built.tasks["m"]
    assert keys.states_bytes().sum() == pytest.approx(task.logic.held_bytes())
    gone = task.logic.take(0.0, lambda key: keys.group_of(key) == 3)
    assert keys.states_bytes()[3] == 0.0 and gone.bytes > 0.0
    task.logic.give(gone)
    assert keys.states_bytes()[3] == pytest.approx(gone.bytes)


GROUPS = 10
SPANS = [(0.1, 10), (2, 10), (3.3, 13.7), (1, 12.5)]
"""Warm-ups and horizons."""


def window(name: str, size_s: float, slide_s: float | None = None, **more: Any) -> dict[str, Any]:
    policy = {"policy": "time", "size_s": size_s} | ({} if slide_s is None else {"slide_s": slide_s})
    return {"kind": "aggregate", "name": name, "window": policy, "group_by": "int", "groups": GROUPS} | more


def ran(job: Deployment, span: tuple[float, float], **more: Any) -> Run:
    return simulated(job, warmup_s=span[0], horizon_s=span[1], seed=1, **more)


def uneven(run: Run) -> list[str]:
    """Warnings on the measured span; short runs have other warnings, too."""
    return [line for line in run.warnings if "are measured" in line]


def rates_out(run: Run) -> dict[str, float]:
    return {each.operator: each.rate_out_per_s for each in run.operators}


@pytest.mark.parametrize("span", SPANS)
@pytest.mark.parametrize("slide_s", [0.5, 1, 2])
def test_windows_over_time_have_their_groups_once_a_slide(slide_s: float, span: tuple[float, float]) -> None:
    run = ran(chain([window("a", 2, slide_s)], 400), span)
    assert run.metrics.throughput_per_s == pytest.approx(GROUPS / slide_s)
    assert rates_out(run)["a"] == pytest.approx(GROUPS / slide_s)
    assert run.metrics.records_out == pytest.approx(run.metrics.throughput_per_s * (span[1] - run.manifest["warmup_s"]))
    assert not uneven(run)


@pytest.mark.parametrize("span", SPANS)
def test_of_two_windows_in_a_row_the_last_says(span: tuple[float, float]) -> None:
    last = {"kind": "aggregate", "name": "b", "window": {"policy": "time", "size_s": 3}}
    run = ran(chain([window("a", 1), last], 400), span)
    assert run.metrics.throughput_per_s == pytest.approx(1 / 3)
    assert rates_out(run)["a"] == pytest.approx(GROUPS)


@pytest.mark.parametrize("horizon_s", [11_000, 12_345, 14_400])
def test_windows_of_an_hour(horizon_s: float) -> None:
    run = ran(chain([window("a", 3600)], 0.2), (60, horizon_s), period_s=600)
    assert run.metrics.throughput_per_s == pytest.approx(GROUPS / 3600)


@pytest.mark.parametrize("span", SPANS)
def test_results_of_windows_and_others_are_added_up(span: tuple[float, float]) -> None:
    some = {"kind": "filter", "name": "some", "selectivity": 0.25}
    job = deployment(
        [source(), some, window("a", 2), sink()],
        [("source", "some"), ("source", "a"), ("some", "sink"), ("a", "sink")],
        {"source": 400},
    )
    run = ran(job, span)
    error = 5 * math.sqrt(100 / (span[1] - run.manifest["warmup_s"]))  # of a Poisson count
    assert run.metrics.throughput_per_s == pytest.approx(100 + GROUPS / 2, abs=error)
    assert rates_out(run)["a"] == pytest.approx(GROUPS / 2)


@pytest.mark.parametrize("horizon_s", [61.7, 75])
def test_sessions_end_when_a_key_is_silent(horizon_s: float) -> None:
    """Of Poisson arrivals a share exp(-rate gap / keys) is the last of its session, a gap before the session's end."""
    keys, gap_s, rate = 100, 0.5, 400.0
    run = ran(chain([{"kind": "session", "name": "a", "gap_s": gap_s, "keys": keys}], rate), (2, horizon_s))
    expected = rate * math.exp(-rate * gap_s / keys)
    assert run.metrics.throughput_per_s == pytest.approx(expected, abs=5 * math.sqrt(expected / (horizon_s - 2)))


@pytest.mark.parametrize(
    ("job", "span"),
    [
        (chain([window("a", 2)], 400), (0, 10)),
        (chain([window("a", 2)], 400), (0, 11)),
        (chain([window("a", 7)], 400), (0.1, 10)),
        (chain([window("a", 0.7), window("b", 4)], 400), (1, 10)),
    ],
)
def test_what_cannot_be_whole_is_said_with_its_width(job: Deployment, span: tuple[float, float]) -> None:
    run = ran(job, span)
    (line,) = uneven(run)
    assert "a: its window is evaluated every" in line
    off = float(line.split("may be ")[1].split("%")[0]) / 100
    every_s = job.query.operators[1].window.slide  # type: ignore[union-attr]
    assert rates_out(run)["a"] == pytest.approx(GROUPS / every_s, rel=off + 0.005)


@pytest.mark.parametrize(
    "every", [{"interval_s": 1.7}, {"interval_s": 1.7, "first_s": None}, {"interval_s": 0.1, "min_pause_s": 1.7}]
)
@pytest.mark.parametrize("span", [*SPANS, (0, 10)])
def test_results_that_wait_for_checkpoints_are_counted_for_whole_intervals(
    span: tuple[float, float], every: dict[str, float | None]
) -> None:
    """Throughput of constant arrivals, committed every 1.7 s, is right; without a warm-up a warning gives its error."""
    run = committed(
        lines(rate_per_s=400.0),
        checkpoints={"sinks": "exactly-once"} | every,
        warmup_s=span[0],
        horizon_s=span[1],
    )
    off = [float(line.split("may be ")[1].split("%")[0]) / 100 for line in uneven(run)]
    assert run.metrics.throughput_per_s == pytest.approx(400, rel=sum(off) + 0.01)
    assert len(off) == (span[0] == 0)


def test_a_run_to_which_something_happens_is_measured_as_asked() -> None:
    event = RateChange(at_s=1.5, source="source", factor=2)
    run = simulated(chain([window("a", 2)], 400), event, warmup_s=1, horizon_s=10, seed=1)
    assert run.manifest["warmup_s"] == 1
    assert any(line.startswith("a: its window is evaluated every 2 s, but 9 s are measured") for line in run.warnings)


@pytest.mark.parametrize(("warmup_s", "period_s"), [(0, 4), (3, 4), (4, 4), (7, 4), (0.3, 0.1), (9.9, 4), (2, 100)])
def test_a_period_begins_when_the_warm_up_ends(warmup_s: float, period_s: float) -> None:
    told: list[tuple[int, int]] = []
    settings = RunSettings(warmup_s=warmup_s, horizon_s=10, period_s=period_s, seed=1)
    run = simulate(Scenario.of(chain([], 400), settings), progress=lambda done, total: told.append((done, total)))
    rows = [row for row in run.operator_rows if row["operator"] == "sink"]
    assert rows[0]["start_s"] == 0 and rows[-1]["end_s"] == 10
    assert all(row["end_s"] == after["start_s"] for row, after in pairwise(rows))
    assert sum(row["start_s"] == pytest.approx(warmup_s) for row in rows) == 1
    lengths = [row["end_s"] - row["start_s"] for row in rows[1:-1]]
    assert lengths == pytest.approx([period_s] * len(lengths))
    assert run.metrics.throughput_per_s * (10 - warmup_s) == pytest.approx(run.metrics.records_out)
    assert told[-1] == (len(rows) - 1, len(rows))  # the last is not told


WINDOW_S, RESULT_S, KEYS = 2.0, 4e-4, 1500


def waited(rng: np.random.Generator, windows: int) -> np.ndarray:
    """Ages of the results of windows of 500 records a second, where each result waits for those of the keys before its
    own."""
    ages = []
    for _ in range(windows):
        at_s = rng.uniform(0.0, WINDOW_S, rng.poisson(500.0 * WINDOW_S))
        oldest = np.full(KEYS, np.inf)
        np.minimum.at(oldest, rng.integers(0, KEYS, len(at_s)), at_s)
        seen = oldest[np.isfinite(oldest)]
        ages.append(WINDOW_S - seen + RESULT_S * np.arange(1, len(seen) + 1))
    return np.concatenate(ages)


@pytest.mark.parametrize("kind", ["aggregate", "compute"])
def test_old_results_of_a_window_leave_no_sooner_than_young_ones(kind: str) -> None:
    """Results of one evaluation leave by their keys, which say nothing of ages: ages and waits add up by chance.

    Histograms are within 1 %, which is a part of the tolerance. With the oldest first, the 95 % quantile is 12 % less.
    """
    by_time = {
        "aggregate": {"window": {"policy": "time", "size_s": WINDOW_S}, "group_by": "int", "groups": KEYS},
        "compute": {"windows": [{"length_s": WINDOW_S}], "keys": KEYS, "execute_time_s": 0.0},
    }
    middle = {"kind": kind, "name": "m", "key_groups": 50, "service_time_s": 0.0} | by_time[kind]
    free = STORM.model_copy(update={"result_us": 0.0, "scan_us": 0.0, "channel_records": 10**6})
    job = chain([middle], 500.0, engine=free.model_dump(mode="json")).model_dump(mode="json")
    job["query"]["operators"][2] |= {"service_time_s": RESULT_S, "service_scv": 0.0}
    made, rng = parse(Deployment, job), np.random.default_rng(5)
    runs = [simulated(made, horizon_s=42.0, warmup_s=2.0, seed=seed).metrics for seed in range(4)]
    ages = [waited(rng, 20) for _ in range(40)]
    for share, name in ((0.5, "p50"), (0.95, "p95"), (0.99, "p99")):
        found = [getattr(each.processing_latency_s, name) for each in runs]
        expected = np.array([np.quantile(each, share) for each in ages])
        error = np.std(expected, ddof=1) * np.sqrt(1 / 4 + 1 / 40)
        assert abs(np.mean(found) - expected.mean()) < 4 * error + 0.01 * expected.mean(), (name, found)


def told_of(run: Run, words: str) -> list[str]:
    """Warnings of a run with these words."""
    return [line for line in run.warnings if words in line]


@pytest.mark.parametrize(("slide_s", "interval_s"), [(2.0, 2.0), (3.0, 2.0), (2.0, 6.0), (2.0, 1.9), (2.0, 0.03)])
def test_where_results_wait_in_step_with_checkpoints_it_is_said_by_how_much(slide_s: float, interval_s: float) -> None:
    """The mean latency differs with the start of checkpoints by as much as the warning says, or by 2 % if none does."""
    starts = 20 if interval_s > 0.03 else 6
    job = chain([window("w", slide_s)], {"law": "constant", "rate_per_s": 50.0})
    runs = [
        committed(
            job,
            checkpoints={"sinks": "exactly-once", "interval_s": interval_s, "first_s": first_s, "sync_ms": 0},
            warmup_s=6.0,
            horizon_s=30.0 if interval_s > 0.03 else 16.0,
        )
        for first_s in (*(np.arange(starts) + 0.5) / starts * interval_s, None)
    ]
    means = [run.metrics.e2e_latency_s.mean for run in runs]
    lines = told_of(runs[-1], "begin by chance")
    assert not any(told_of(run, "begin by chance") for run in runs[:-1])
    if lines:
        said_s = float(lines[0].split("up to ")[1].split(" s")[0])
        assert said_s - 2 * interval_s / 20 < np.ptp(means[:-1]) < said_s + 0.02  # starts are a twentieth apart
    else:
        assert np.ptp(means) < 0.03 * np.mean(means)
    assert bool(lines) == (interval_s != 0.03)


@pytest.mark.parametrize("min_pause_s", [1.0, 2.0])
def test_checkpoints_begin_by_chance_between_the_least_pause_and_the_interval(min_pause_s: float) -> None:
    """In step with windows of 2 s, they may move the mean by what lies between; if both are equal, by nothing."""
    job = chain([window("w", 2.0)], {"law": "constant", "rate_per_s": 50.0})
    told, means = list[str](), list[float]()
    for first_s in (None, *np.linspace(1.05, 1.95, 7).tolist()):
        spec = {"sinks": "exactly-once", "interval_s": 2.0, "min_pause_s": min_pause_s, "sync_ms": 0}
        run = committed(job, checkpoints=spec | {"first_s": first_s}, warmup_s=6.0, horizon_s=30.0)
        told += told_of(run, "begin by chance")
        assert run.metrics.e2e_latency_s is not None
        means.append(run.metrics.e2e_latency_s.mean)
    assert [line.split("up to ")[1].split(" s")[0] for line in told] == ["0.999"] * (min_pause_s < 2.0)
    assert min_pause_s == 2.0 or np.ptp(means[1:]) == pytest.approx(0.9, abs=0.02)


@pytest.mark.parametrize("time", ["processing", "event"])
def test_sessions_that_outlast_a_run_are_said(time: str) -> None:
    """Where many sessions are open at the end, the longest are missing; where few are, the mean is right."""
    rate_per_s, gap_s = 1.0, 2.0
    visits = {"kind": "session", "name": "visits", "gap_s": gap_s, "keys": 60, "service_time_s": 0.0, "time": time}
    law_s = np.expm1(rate_per_s * gap_s) / rate_per_s
    for horizon_s, outlast in ((20.0, True), (300.0, False)):
        run = simulated(chain([visits], 60.0 * rate_per_s), horizon_s=horizon_s, warmup_s=2.0)
        assert bool(told_of(run, "had not ended with the run")) == outlast
        assert (run.metrics.processing_latency_s.mean < 0.9 * law_s) == outlast


def test_windows_that_outlast_a_run_are_said() -> None:
    for horizon_s, outlast in ((10.0, True), (40.0, False)):
        run = simulated(chain([window("w", 20.0, 1.0)], 50.0), horizon_s=horizon_s, warmup_s=1.0)
        assert bool(told_of(run, "longer than the run")) == outlast
