"""Matches of joins against real keys, and results of keys that come to several subtasks."""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.twin.evaluated import evaluations
from tests.twin.worlds import chain, joined, simulated
from twin.deployment import Deployment
from twin.key_skew import zipf_shares
from twin.operators.key_groups import Likeness, keys_for
from twin.spec import parse

IN_A_ROW = 10
BLOCKS = 16


class Theory(NamedTuple):
    """Matches of Poisson numbers of records with real keys in a window; variance of sums over ten windows in a row."""

    mean: float
    variance: float
    of_sums: float

    @staticmethod
    def of(shares: np.ndarray, rates: list[float], panes: int) -> Theory:
        """Theory for shares of keys. rates: mean records of each side in a window; panes: slides a window."""
        means = np.multiply.outer(rates, shares)  # of each side and key
        shared = [1 - lag / panes for lag in range(min(panes, IN_A_ROW))]
        covariances = [
            float(np.sum(np.prod(means**2 + each * means, axis=0) - np.prod(means**2, axis=0))) for each in shared
        ]
        weights = [IN_A_ROW, *(2 * (IN_A_ROW - lag) for lag in range(1, len(shared)))]
        mean = float(np.sum(np.prod(means, axis=0)))
        return Theory(mean, covariances[0], float(np.dot(weights, covariances)))

    def check(self, rows: np.ndarray) -> None:
        """Checks windows, within four standard errors. rows: independent ones, windows in a row in each."""
        assert len(rows) >= BLOCKS
        sums = np.apply_along_axis(np.convolve, 1, rows, np.ones(IN_A_ROW), "valid")
        near(rows.mean(axis=1), self.mean)
        near(np.mean((rows - self.mean) ** 2, axis=1), self.variance)
        near(np.mean((sums - IN_A_ROW * self.mean) ** 2, axis=1), self.of_sums)


def near(each: np.ndarray, expected: float) -> None:
    """Checks that the mean of independent estimates is within four standard errors, which grow with their size."""
    found = float(np.mean(each))
    error = np.std(each, ddof=1) / np.sqrt(len(each)) * expected / found
    assert abs(found - expected) < 4 * error, (found, expected, error)


def real(counts_skpt: np.ndarray, panes: int) -> np.ndarray:
    """Matches in each window of so many panes; counts: records by side, key, sample and pane. [samples, windows]"""
    ends = np.cumsum(np.insert(counts_skpt, 0, 0, axis=3), axis=3, dtype=float)
    return np.asarray((ends[..., panes:] - ends[..., :-panes]).prod(axis=0).sum(axis=0))


@pytest.mark.parametrize(("zipf", "rates", "panes"), [(0.0, [20.0, 30.0], 10), (1.0, [8.0, 10.0, 12.0], 3)])
def test_the_theory_matches_brute_force(zipf: float, rates: list[float], panes: int) -> None:
    shares = zipf_shares(30, zipf)
    means = np.multiply.outer(np.array(rates) / panes, shares)[..., None, None]
    counts = np.random.default_rng(5).poisson(means, (*means.shape[:2], 2000, IN_A_ROW + panes - 1))
    Theory.of(shares, rates, panes).check(real(counts, panes))


# one evaluation ------------------------------------------------------------------------------------------------------


@settings(max_examples=15, deadline=None)
@given(st.integers(2, 3), st.sampled_from([1.0, 0.3, 0.05]), st.sampled_from([None, 4]), st.integers(0, 99))
def test_all_of_a_key_match_in_their_order(sides: int, selectivity: float, groups: int | None, seed: int) -> None:
    """All combinations of a key match; those of a key in the order of the first side's records, then of the next."""
    window = {"policy": "time", "size_s": 0.7, "slide_s": 0.2}
    join = {"kind": "join", "name": "j", "window": window, "selectivity": selectivity ** (sides - 1)}
    job = joined(
        join | ({} if groups is None else {"key_groups": groups}), {f"s{number}": 12.0 for number in range(sides)}
    )
    for _, records, results in evaluations(job, "j", 4.0, seed):
        expected = [
            (one[0][0], min(each[1] for each in one), min(each[2] for each in one))
            for one in product(*records)
            if len({key for key, _, _ in one}) == 1
        ]
        assert sorted(set(results)) == sorted(set(expected))
        if all(results.count(each) == 1 for each in results):  # keys that match too seldom match more than once
            assert results == sorted(expected, key=lambda each: each[0])


@settings(max_examples=200, deadline=None)
@given(keys=st.floats(0.2, 500.0), sides=st.integers(2, 4))
def test_keys_match_as_often_as_they_should(keys: float, sides: int) -> None:
    """The chance that all sides have one key, times its repeats, is keys^(1 - sides), to rounding."""
    found = Likeness.of(keys, sides)
    each = np.full(found.keys, 1.0 / found.scale)
    each[-1] = 1.0 - (found.keys - 1) / found.scale
    assert each[-1] <= each[0] * (1.0 + 1e-9) and found.keys >= keys - 1e-6
    assert np.sum(each**sides) * found.repeats == pytest.approx(keys ** (1 - sides), rel=1e-8)
    drawn = [found.key(at) for at in (np.arange(4000) + 0.5) / 4000]
    counted = np.bincount(drawn, minlength=found.keys)
    assert np.abs(counted / 4000 - each).max() < 1.01 / 4000
    assert keys_for(float(keys) ** (1 - sides), sides) == pytest.approx(keys)


def test_measured_results_are_of_any_record_of_each_side() -> None:
    """Results a record that came since the last evaluation, each as old as the oldest of its records."""
    window = {"policy": "time", "size_s": 2.0, "slide_s": 1.0}
    join = {"kind": "join", "name": "j", "window": window, "amplification": 30.0}
    differences, variances, came = [], [], 0
    for end_s, (ones, others), results in evaluations(joined(join, {"one": 20.0, "other": 15.0}), "j", 40.0):
        fresh = [each for each in (*ones, *others) if each[1] > end_s - 1.0]
        assert abs(len(results) / 30 - len(fresh)) in (0.0, 1.0)  # one may have been in service as its second ended
        oldest = [min(one[1], other[1]) for one in ones for other in others]
        differences.append(np.mean([born_s for _, born_s, _ in results]) - np.mean(oldest))
        variances.append(np.var(oldest) / len(results))
        came += len(fresh)
    assert came > 1000
    assert abs(np.sum(differences)) < 4 * np.sqrt(np.sum(variances))


# whole runs ----------------------------------------------------------------------------------------------------------


def join(rates: list[float], selectivity: float, slide_s: float, parallelism: int = 1, **more: Any) -> dict[str, Any]:
    """Document of all sources into a join with a window of a second."""
    window = {"policy": "time", "size_s": 1.0, "slide_s": slide_s}
    operator = {"kind": "join", "name": "j", "window": window, "selectivity": selectivity, "service_time_s": 1e-7}
    job = joined(operator | more, {f"s{k}": rate for k, rate in enumerate(rates)}, placement={"j": {"h": parallelism}})
    return job.model_dump(mode="json", exclude_none=True)


def matched(data: dict[str, Any], horizon_s: float, seed: int = 0) -> np.ndarray:
    """Matches of each window in a run, all subtasks together; the first two seconds are left out.

    Periods end between two windows, whose results leave soon after each.
    """
    slide_s = next(each["window"]["slide_s"] for each in data["query"]["operators"] if each["name"] == "j")
    settings = {"warmup_s": slide_s / 2, "period_s": slide_s, "noise": False}
    run = simulated(parse(Deployment, data), horizon_s=horizon_s, seed=seed, **settings)
    rows = [row for row in run.operator_rows if row["operator"] == "j" and row["start_s"] > 2.0]
    return np.array([row["numRecordsOut"] for row in rows[:-1]], dtype=float)


def in_blocks(windows: np.ndarray) -> np.ndarray:
    """Windows of a run as nearly independent blocks."""
    return windows[: len(windows) // BLOCKS * BLOCKS].reshape(BLOCKS, -1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("keys", "zipf", "rates", "panes", "parallelism"),
    [
        (50, 0.0, [30, 30], 1, 4),
        (50, 0.0, [30, 30], 10, 1),
        (200, 1.0, [30, 30], 1, 1),
        (200, 1.0, [30, 30], 1, 4),
        (200, 1.0, [30, 30], 10, 4),
        (20, 0.0, [15, 15, 15], 1, 1),
        (20, 0.0, [15, 15, 15], 4, 4),
        (60, 1.0, [12, 12, 12], 1, 4),
    ],
)
def test_runs_match_as_real_keys_do(keys: int, zipf: float, rates: list[float], panes: int, parallelism: int) -> None:
    """Runs with a key in each key group match as real keys do, all subtasks together."""
    shares = zipf_shares(keys, zipf)
    data = join(rates, float(np.sum(shares ** len(rates))), 1 / panes, parallelism, key_groups=keys)
    data["workload"]["keys"] = {"j": {"zipf": zipf}}
    Theory.of(shares, rates, panes).check(in_blocks(matched(data, 400 if panes == 1 else 280)))


@pytest.mark.parametrize("selectivity", [0.02, 0.5])
def test_keys_without_groups_are_dealt_evenly(selectivity: float) -> None:
    """Keys without groups are as many as the selectivity says, also where they are fewer than the subtasks."""
    theory = Theory.of(zipf_shares(round(1 / selectivity), 0.0), [12, 12], 1)
    theory.check(in_blocks(matched(join([12, 12], selectivity, 1.0, 4), 400)))


def test_a_side_that_all_subtasks_have_makes_no_more_matches() -> None:
    for into in (["broadcast", "hash"], ["global", "global"], ["broadcast", "hash", "hash"]):
        data = join([30.0] * len(into), 0.02, 1.0, 3)
        for stream, partitioning in zip(data["query"]["streams"], into, strict=False):
            stream["partitioning"] = partitioning
        near(matched(data, 150), 0.02 * 30 ** len(into))


def test_more_matches_than_key_groups_allow_are_named() -> None:
    for selectivity, named in ((0.02, False), (0.2, True)):
        run = simulated(parse(Deployment, join([30, 30], selectivity, 1.0, key_groups=16)), horizon_s=5)
        assert any("only records of one key group match" in line for line in run.warnings) == named


RATE_PER_S, KEYS, PARALLELISM = 200.0, 30, 3


def _dealt(operator: dict[str, Any], partitioning: str) -> Deployment:
    window = operator | {"name": "window", "service_time_s": 0}
    places = {"window": ["h"] * PARALLELISM}
    return chain([window], RATE_PER_S, placement=places, partitioning={"window": partitioning})


def _per_s(job: Deployment) -> np.ndarray:
    """Results a second, of as many runs as standard errors need."""
    runs = [simulated(job, horizon_s=22.5, warmup_s=2.5, period_s=1, seed=seed) for seed in range(12)]
    return np.array([run.metrics.throughput_per_s for run in runs])


@pytest.mark.parametrize(
    ("partitioning", "places", "copies"),
    [("hash", 1, 1), ("rebalance", PARALLELISM, 1), ("broadcast", PARALLELISM, PARALLELISM)],
)
@pytest.mark.parametrize("kind", ["aggregate", "session"])
def test_results_are_of_all_keys_that_come_to_a_subtask(kind: str, partitioning: str, places: int, copies: int) -> None:
    """A key's records that come to several subtasks are as many Poisson streams, each with results of its own."""
    per_s, span_s = RATE_PER_S * copies / places / KEYS, 0.25
    operator: dict[str, Any] = {"kind": "session", "gap_s": span_s, "keys": KEYS}
    expected = KEYS * places * per_s * np.exp(-per_s * span_s)
    if kind == "aggregate":
        window = {"policy": "time", "size_s": span_s}
        operator = {"kind": "aggregate", "function": "count", "group_by": "int", "groups": KEYS, "window": window}
        expected = KEYS * places * -np.expm1(-per_s * span_s) / span_s
    found = _per_s(_dealt(operator, partitioning))
    assert abs(found.mean() - expected) < 6 * found.std(ddof=1) / np.sqrt(len(found))
