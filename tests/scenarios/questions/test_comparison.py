"""Differences and chance: the laws that intervals and significance keep."""

from __future__ import annotations

import itertools
import math
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from scenarios.executing import Lines, Processes
from scenarios.questions.bench import MOST, QUANTILE_GRAIN, Bench, Wanted, of_difference, of_mean, p_value, replicate
from scenarios.questions.policies_compared import PoliciesCompared
from scenarios.questions.resources import without_spare
from scenarios.questions.variants import Variant
from scenarios.questions.whatif import LEVEL, ComparedMetric, adjusted, changed, compared, holm
from streamtwin.answers import comparison, policies
from tests.scenarios.questions.jobs import SILENT, queue, shop

GROUPS, GROUP = 40, 5
MEAN, RATE, P99 = "e2e_latency_s.mean", "throughput_per_s", "e2e_latency_s.p99"


@pytest.fixture(scope="module")
def two_queues():
    """Runs of M/M/1 queues at loads 0.50 and 0.55, on the same random numbers: enough for `GROUPS` experiments."""
    cases = [queue(rate, horizon_s=3) for rate in (500, 550)]
    with Bench(Processes(1)) as bench:
        return replicate(bench, cases, [RATE], Wanted(GROUPS * GROUP), 1, SILENT)


def covered(samples, metric, truth):
    """Number of experiments, of five runs each, whose interval of the difference holds `truth`."""
    first, second = (samples.values(case, metric).reshape(GROUPS, GROUP) for case in (0, 1))
    found = [of_difference(b, a, metric) for a, b in zip(first, second, strict=True)]
    return sum(abs(each.mean - truth) <= each.half_width95 for each in found)


def fewest():
    """Four standard errors below 95 of 100 experiments."""
    return GROUPS * 0.95 - 4 * math.sqrt(GROUPS * 0.95 * 0.05)


def test_intervals_of_differences_cover_the_truth_in_95_of_100_experiments(two_queues):
    """Intervals cover the true differences: 50 a second of throughput, and the latency's in all runs together."""
    assert covered(two_queues, RATE, 50.0) >= fewest()
    far = np.mean(two_queues.values(1, MEAN) - two_queues.values(0, MEAN))
    assert covered(two_queues, MEAN, far) >= fewest()


def test_intervals_that_are_too_narrow_would_be_noticed(two_queues):
    first, second = (two_queues.values(case, MEAN).reshape(GROUPS, GROUP) for case in (0, 1))
    far = np.mean(second - first)
    halves = [(np.mean(b - a), of_difference(b, a, MEAN).half_width95 / 3) for a, b in zip(first, second, strict=True)]
    assert sum(abs(mean - far) <= half for mean, half in halves) < fewest()


def test_common_random_numbers_make_differences_smaller_than_chance(two_queues):
    apart = two_queues.values(1, RATE) - two_queues.values(0, RATE)
    alone = np.var(two_queues.values(0, RATE)) + np.var(two_queues.values(1, RATE))
    assert np.var(apart) < 0.5 * alone


def test_wrong_words_are_rare():
    """Of tables with ten comparisons of equals, at most 5 % call even one significant."""
    rng = np.random.default_rng(1)
    tables, wrong = 400, 0
    for _ in range(tables):
        first = rng.normal(10.0, 1.0, 6)
        found = adjusted([changed(first + rng.normal(0.0, 1.0, 6), first, RATE) for _ in range(10)])
        wrong += any(each.certain() for each in found)
    assert wrong <= tables * LEVEL + 4 * math.sqrt(tables * LEVEL * (1 - LEVEL))


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=5))
def test_holm_is_the_closed_test_of_bonferroni(p_values):
    """Holm's procedure rejects a hypothesis if all intersections that hold it are rejected, by brute force."""
    found = holm(p_values)
    count = len(p_values)
    for index in range(count):
        sets = [s for size in range(1, count + 1) for s in itertools.combinations(range(count), size) if index in s]
        closed = max(min(1.0, len(s) * min(p_values[each] for each in s)) for s in sets)
        assert found[index] == pytest.approx(closed)


def test_p_values_are_those_of_a_paired_t_test():
    rng = np.random.default_rng(2)
    a, b = rng.normal(5, 1, 9), rng.normal(5.5, 1, 9)
    assert p_value(b - a) == pytest.approx(stats.ttest_rel(b, a).pvalue)


def test_words_say_what_is_known():
    few = np.array([10.0, 10.5, 9.5, 10.2])
    noise = np.array([0.01, -0.02, 0.015, 0.0])
    for values, words in (
        (few + 5 + noise, "significantly higher"),
        (few - 5 + noise, "significantly lower"),
        (few, "the same"),
        (few + 10 * noise, "not significant"),
        (few * (1 - 4e-4) + noise / 1e3, "less than 0.1 % apart"),
        (few * (1 - 6e-4) + noise / 1e3, "significantly lower"),
        (np.array([1.0, math.inf, 1.0, 1.0]), "not comparable: runs without results"),
    ):
        assert adjusted([changed(values, few, RATE)])[0].in_words(1) == words
    crowd = adjusted([changed(few + 0.03 + noise, few, RATE)] + [changed(few, few, RATE)] * 30)
    assert crowd[0].p_value < LEVEL
    assert crowd[0].in_words(31) == "not significant among 31 comparisons"


def test_no_change_is_minus_zero():
    cell = ComparedMetric(mean=1.0, half_width95=0.0, values=(1.0, 1.0), difference=-1e-9, share=-1e-9, share95=0.0)
    assert comparison.change(RATE, cell) == "+0.0 ± 0.0 %"


@pytest.mark.parametrize(
    ("share", "half", "told"),
    [
        (-1.0, 0.014, "-200 ± 3"),
        (-0.6, 0.8, "-120 ± 160"),
        (0.5, 2.0, "+100 ± 400"),
        (-1.0, 0.0, "-100.0 ± 0.0 %"),
        (-0.92, 0.08, "-92 ± 8 %"),
        (3000.0, 20.0, "+600,000 ± 4,000"),
    ],
)
def test_no_interval_goes_beyond_minus_100_percent_as_nothing_falls_so_far(share, half, told):
    """A change whose interval goes below -100 %, or from next to nothing, is given in the metric's unit, here of a
    first mean of 200."""
    cell = ComparedMetric(
        mean=200 * (1 + share),
        half_width95=1.0,
        values=(),
        difference=200 * share,
        difference95=200 * half,
        share=share,
        share95=half,
    )
    assert comparison.change(RATE, cell) == told
    assert not comparison.change(RATE, cell, in_unit=True).endswith("%")  # where another of its metric has to be


def test_quantiles_are_no_better_known_than_their_histogram():
    same = np.full(5, 3.0)
    assert of_mean(same, P99).half_width95 == pytest.approx(3.0 * QUANTILE_GRAIN)
    assert of_mean(same, MEAN).half_width95 == 0.0
    assert not adjusted([changed(same * 1.015, same, P99)])[0].certain()
    assert adjusted([changed(same * 1.015, same, MEAN)])[0].certain()


def test_runs_go_on_until_every_interval_is_narrow_enough():
    cases, said = [queue(rate, horizon_s=4) for rate in (500, 800)], list[str]()
    with Bench(Processes(1)) as bench:
        samples = replicate(bench, cases, [MEAN], Wanted(4, 0.12), 1, Lines(said.append))
    assert 4 < samples.runs <= MOST and not samples.needed
    ended = said.index("    8 of 8 runs")
    assert said[0].startswith("2 variants, 4 runs of each") and said[ended + 2].startswith("    8 of "), "known already"
    assert said[-1] == f"    {2 * samples.runs} of {2 * samples.runs} runs", "the announced total is reached"
    first = samples.values(0, MEAN)
    for case in (0, 1):
        values = samples.values(case, MEAN)
        assert of_mean(values, MEAN).chance <= 0.12 * np.mean(values)
        assert (of_difference(values, first, MEAN).chance or 0.0) <= 0.12 * np.mean(first)


def test_processes_and_memory_make_no_difference(monkeypatch):
    from scenarios import executing

    monkeypatch.setattr(executing, "STARTED_S", 0.0)
    cases = [shop(), shop().with_policy("ds2")]
    found = []
    for workers in (1, 2):
        with Bench(Processes(workers)) as bench:
            found.append(replicate(bench, cases, [MEAN], Wanted(2), 5, SILENT).outcomes)
            assert bench.made == 4
            replicate(bench, cases, [MEAN], Wanted(2), 5, SILENT)
            assert bench.made == 4  # known already
    assert found[0] == found[1]


def test_a_run_too_short_to_tell_says_so_and_a_longer_one_tells():
    """At 120 % load a short run cannot tell whether a job keeps up, as channels fill first; a longer one can."""
    short, long = (queue(1200, horizon_s=horizon_s, warmup_s=0.1, period_s=0.1) for horizon_s in (0.6, 20))
    for job, words in ((short, "unknown: work was fully used"), (long, "no, in all runs")):
        cases = [Variant("as it is", job), Variant("slow", job.with_run(noise=False))]
        with Bench(Processes(1)) as bench:
            answer = compared(bench, cases, [MEAN], Wanted(2), 1, SILENT)
        cells = [cell for column in comparison.told(answer).tables[0].columns for cell in column.cells]
        assert sum(cell.startswith(words) for cell in cells) == 2
        of_policies = policies.told(
            PoliciesCompared(**{field.name: getattr(answer, field.name) for field in fields(answer)}, slo_s=None)
        )
        assert of_policies.tables[0].columns[1].cells[-1] == ("?" if job is short else "no, in all runs")
        assert sum("keeps up unknown" in note for note in of_policies.notes) == (2 if job is short else 0)
    with Bench(Processes(1)) as bench:
        assert without_spare(queue(300), bench.outcomes([(queue(300, horizon_s=2), 1)])) == []
