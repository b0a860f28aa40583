"""Matches of joins against real keys: how they vary from window to window, and what windows that overlap share."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.twin.worlds import deployment, sink, source
from twin.deployment import Deployment
from twin.engine import ENGINE
from twin.engine.draws import Draws
from twin.engine.windows.join import MatchCombiner
from twin.engine.windows.key_law import KeyLaw, counted, repeats
from twin.engine.windows.matches import Matches
from twin.engine.windows.window import Results
from twin.key_skew import zipf_shares
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate
from twin.spec import parse

IN_A_ROW = 10
BLOCKS = 16


class Theory(NamedTuple):
    """Matches of Poisson numbers of tuples with real keys in a window; variance of sums over ten windows in a row."""

    mean: float
    variance: float
    of_sums: float

    @staticmethod
    def of(shares: np.ndarray, rates: list[float], panes: int) -> Theory:
        """rates: tuples of each side a window, on average; panes: slides a window."""
        means = np.multiply.outer(rates, shares)  # of each side and key
        shared = [1 - lag / panes for lag in range(min(panes, IN_A_ROW))]
        covariances = [
            float(np.sum(np.prod(means**2 + each * means, axis=0) - np.prod(means**2, axis=0))) for each in shared
        ]
        weights = [IN_A_ROW, *(2 * (IN_A_ROW - lag) for lag in range(1, len(shared)))]
        mean = float(np.sum(np.prod(means, axis=0)))
        return Theory(mean, covariances[0], float(np.dot(weights, covariances)))

    def check(self, rows: np.ndarray) -> None:
        """That windows are so, within four standard errors. rows: independent ones, windows in a row in each."""
        assert len(rows) >= BLOCKS
        sums = np.apply_along_axis(np.convolve, 1, rows, np.ones(IN_A_ROW), "valid")
        near(rows.mean(axis=1), self.mean)
        near(np.mean((rows - self.mean) ** 2, axis=1), self.variance)
        near(np.mean((sums - IN_A_ROW * self.mean) ** 2, axis=1), self.of_sums)


def near(each: np.ndarray, expected: float) -> None:
    """Independent estimates of something, on average, within four standard errors, which grow with their size."""
    found = float(np.mean(each))
    error = np.std(each, ddof=1) / np.sqrt(len(each)) * expected / found
    assert abs(found - expected) < 4 * error, (found, expected, error)


def powers(shares: np.ndarray, sides: int) -> list[float]:
    return [float((shares**j).sum()) for j in range(sides, 2 * sides)]


def real(counts_skpt: np.ndarray, panes: int) -> np.ndarray:
    """Matches in each window of so many panes; counts: tuples by side, key, sample and pane. [samples, windows]"""
    ends = np.cumsum(np.insert(counts_skpt, 0, 0, axis=3), axis=3, dtype=float)
    return np.asarray((ends[..., panes:] - ends[..., :-panes]).prod(axis=0).sum(axis=0))


def agree(ours: np.ndarray, theirs: np.ndarray) -> None:
    """Mean and variance of independent samples, within four standard errors."""
    for value in (np.mean, np.var):
        errors = [_error(sample, value) for sample in (ours, theirs)]
        assert abs(value(ours) - value(theirs)) < 4 * np.hypot(*errors), value


def _error(sample: np.ndarray, value: Any) -> float:
    deviations = sample - sample.mean()
    return float((deviations if value is np.mean else deviations**2).std() / np.sqrt(sample.size))


@pytest.mark.parametrize(("zipf", "rates", "panes"), [(0.0, [20.0, 30.0], 10), (1.0, [8.0, 10.0, 12.0], 3)])
def test_the_theory_matches_brute_force(zipf: float, rates: list[float], panes: int) -> None:
    shares = zipf_shares(30, zipf)
    means = np.multiply.outer(np.array(rates) / panes, shares)[..., None, None]
    counts = np.random.default_rng(5).poisson(means, (*means.shape[:2], 2000, IN_A_ROW + panes - 1))
    Theory.of(shares, rates, panes).check(real(counts, panes))


@pytest.mark.parametrize("zipf", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("contents", [[30, 30], [5, 90], [20, 30, 40], [15, 20, 25, 10]])
def test_matches_vary_as_those_of_real_keys(contents: list[int], zipf: float) -> None:
    rng, shares = np.random.default_rng(1), zipf_shares(25, zipf)
    counts = np.array([rng.multinomial(n, shares, size=20_000).T for n in contents])
    law = KeyLaw.of_powers(powers(shares, len(contents)))
    mean, dispersion = law.likelihood * np.prod(contents), law.dispersion(contents)
    draws = Draws(rng)
    ours = np.array([counted(draws, float(mean), dispersion) for _ in range(20_000)])
    agree(ours, real(counts[..., None], 1))
    if zipf == 0.0:  # as many keys as the selectivity says
        assert KeyLaw.even(law.likelihood, len(contents)).spreads == pytest.approx(law.spreads, abs=1e-9)


def test_what_repeats_among_overlapping_windows() -> None:
    for fires, slide in ((1, 1.0), (4, 4.0), (3, 1.0), (25, 1.5)):
        shared = [[max(0.0, 1 - abs(i - j) * slide / 4.0) for i in range(fires)] for j in range(fires)]
        by_hand = [np.sum(np.power(shared, a)) / fires for a in (1, 2, 3)]
        assert repeats(fires, slide, 4.0, 3) == pytest.approx(by_hand)


@pytest.mark.parametrize(
    ("keys", "zipf", "rates", "panes"),
    [
        (50, 0.0, [40, 40], 10),
        (50, 0.0, [40, 40], 30),  # more than are kept apart
        (200, 1.0, [40, 40], 10),
        (200, 1.0, [20, 60], 3),
        (5000, 0.0, [30, 30], 4),  # hardly any matches
        (20, 0.0, [20, 20, 20], 10),
        (50, 1.0, [10, 20, 40], 4),
        (10, 0.0, [15, 15, 15, 15], 3),
    ],
)
def test_windows_that_overlap_share_matches(keys: int, zipf: float, rates: list[float], panes: int) -> None:
    """Single windows, and sums over ten in a row, vary as real ones do."""
    shares, rng = zipf_shares(keys, zipf), np.random.default_rng(2)
    draws, law = Draws(rng), KeyLaw.of_powers(powers(shares, len(rates)))
    rows = []
    for _ in range(150):
        came = np.cumsum(rng.poisson(np.array(rates) / panes, (2 * IN_A_ROW + panes, len(rates))), axis=0)
        until = np.vstack([np.zeros((panes, len(rates))), came]).tolist()
        matches = Matches(float(panes), 1.0)
        row = [matches.count(draws, law, until[k], until[k + panes], 1, 1.0) for k in range(len(came))]
        rows.append(row[panes:])
    Theory.of(shares, rates, panes).check(np.array(rows, dtype=float))


@pytest.mark.parametrize("slide", [1.0, 0.3])
def test_merged_evaluations_vary_as_their_sum(slide: float) -> None:
    """Twenty windows alike, in one draw."""
    rng, shares = np.random.default_rng(3), zipf_shares(40, 1.0)
    panes, step = 10, round(10 * slide)
    counts = np.array([rng.multinomial(3, shares, size=(400, 19 * step + panes)).transpose(2, 0, 1) for _ in "ab"])
    matches, draws, law = Matches(1.0, slide), Draws(rng), KeyLaw.of_powers(powers(shares, 2))
    ours = np.array([matches.count(draws, law, [0.0, 0.0], [30.0, 30.0], 20, 1.0) for _ in range(4000)])
    agree(ours, real(counts, panes)[:, ::step].sum(axis=1))


def test_tuples_that_were_foreseen_and_did_not_come() -> None:
    """Whatever is corrected later, matches are the likelihood times the product of the contents, on average."""
    law, rng = KeyLaw.of_powers(powers(zipf_shares(30, 1.0), 2)), np.random.default_rng(4)
    ratios = []
    for seed in range(12):
        matches, draws = Matches(3.0, 1.0), Draws(np.random.default_rng(seed))
        ends, found, expected = np.zeros((4, 2)), 0.0, 0.0
        for _ in range(400):
            ends = np.vstack([ends[1:], ends[-1] + rng.poisson(5, 2)])
            wrong = ends + (rng.random(2) < 0.3) * rng.normal(0, 4, (4, 2))
            since, until = np.maximum(wrong[0], 0), np.maximum(wrong[-1], np.maximum(wrong[0], 0))
            found += matches.count(draws, law, since.tolist(), until.tolist(), 1, 1.0)
            expected += law.likelihood * float(np.prod(until - since))
        ratios.append(found / expected)
    assert abs(np.mean(ratios) - 1) < 4 * np.std(ratios, ddof=1) / np.sqrt(len(ratios)) + 0.01


# whole runs ----------------------------------------------------------------------------------------------------------


def join(rates: list[float], selectivity: float, slide_s: float, replicas: int = 1, **more: Any) -> dict[str, Any]:
    """All sources into a join with a window of a second; as JSON."""
    sources = [f"s{k}" for k in range(len(rates))]
    window = {"policy": "time", "size_s": 1.0, "slide_s": slide_s}
    operator = {"kind": "join", "name": "j", "window": window, "selectivity": selectivity, "service_time_s": 1e-7}
    job = deployment(
        [*map(source, sources), operator | more, sink()],
        [*((each, "j") for each in sources), ("j", "sink")],
        dict(zip(sources, rates, strict=True)),
        placement={"j": {"h": replicas}},
    )
    return job.model_dump(mode="json", exclude_none=True)


def matched(data: dict[str, Any], horizon_s: float, patch: pytest.MonkeyPatch, seed: int = 0) -> np.ndarray:
    """Matches of each window in an exact run, all replicas together; the first two seconds are left out."""
    if ENGINE == "compiled":
        pytest.skip("compiled code does not look up what is to be noted")
    found: defaultdict[float, int] = defaultdict(int)
    evaluate = MatchCombiner.evaluate

    def noted(combiner: MatchCombiner, at: float, *rest: Any) -> tuple[Results | None, float]:
        results, work_s = evaluate(combiner, at, *rest)
        found[round(at, 6)] += results.n if results else 0
        return results, work_s

    with patch.context() as patched:
        patched.setattr(MatchCombiner, "evaluate", noted)
        simulate(Scenario.of(parse(Deployment, data), RunSettings(horizon_s=horizon_s, fidelity="exact", seed=seed)))
    return np.array([found[at] for at in sorted(found) if at > 2.0], dtype=float)


def in_blocks(windows: np.ndarray) -> np.ndarray:
    """A run as nearly independent pieces."""
    return windows[: len(windows) // BLOCKS * BLOCKS].reshape(BLOCKS, -1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("keys", "zipf", "rates", "panes", "replicas"),
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
def test_runs_match_as_real_keys_do(
    keys: int, zipf: float, rates: list[float], panes: int, replicas: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key group a key; all replicas together."""
    shares = zipf_shares(keys, zipf)
    data = join(rates, float(np.sum(shares ** len(rates))), 1 / panes, replicas, key_groups=keys)
    data["workload"]["keys"] = {"j": {"zipf": zipf}}
    Theory.of(shares, rates, panes).check(in_blocks(matched(data, 400 if panes == 1 else 280, monkeypatch)))


@pytest.mark.parametrize("selectivity", [0.02, 0.5])
def test_keys_without_groups_are_dealt_evenly(selectivity: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many keys as the selectivity says, also where they are fewer than the replicas."""
    theory = Theory.of(zipf_shares(round(1 / selectivity), 0.0), [12, 12], 1)
    theory.check(in_blocks(matched(join([12, 12], selectivity, 1.0, 4), 400, monkeypatch)))


def test_a_side_that_all_replicas_have_makes_no_more_matches(monkeypatch: pytest.MonkeyPatch) -> None:
    for into in (["broadcast", "hash"], ["global", "global"], ["broadcast", "hash", "hash"]):
        data = join([30.0] * len(into), 0.02, 1.0, 3)
        for stream, partitioning in zip(data["query"]["streams"], into, strict=False):
            stream["partitioning"] = partitioning
        near(matched(data, 150, monkeypatch), 0.02 * 30 ** len(into))


def test_more_matches_than_key_groups_allow_are_named() -> None:
    for selectivity, named in ((0.02, False), (0.2, True)):
        run = simulate(
            Scenario.of(parse(Deployment, join([30, 30], selectivity, 1.0, key_groups=16)), RunSettings(horizon_s=5))
        )
        assert any("only tuples of one key group match" in line for line in run.warnings) == named
