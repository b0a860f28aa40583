"""Ordinary jobs against brute force, brute force against theory, and laws that can be taken out of the rate model."""

from __future__ import annotations

import numpy as np
import pytest
import yaml

from benchmarks.ablation import LAWS, without
from benchmarks.ordinary.brute import Brute
from benchmarks.ordinary.comparing import compare
from benchmarks.ordinary.jobs import filled_in, load, scenario
from benchmarks.validity import oracles
from benchmarks.validity.theory import limit_se
from tests.twin.worlds import chain
from twin.profiles import FLINK
from twin.rates.model import RateModel
from twin.simulation import simulate

JOBS = load()
SEEDS = 6
QUICK = (
    "tandem-of-five",
    "in-turn",
    "timed-by-zipf",
    "keyed-in-turn",
    "join-in-four",
    "three-links",
    "host-slows",
    "failure",
    "window-as-storm",
    "quarter-hours",
    "support-chats",
    "by-chance",
    "nearly-full-scores",
    "never-complete",
)
EXACT = "toll-gates", "turnstiles"


@pytest.mark.parametrize("name", QUICK)
def test_runs_are_as_brute_force_says(name: str) -> None:
    """Runs of quick jobs agree with brute force; `python -m benchmarks.ordinary` has the other jobs."""
    off = {
        each.name: each.off_se
        for each in compare(name, JOBS[name], SEEDS)
        if abs(each.off_se) > limit_se(2 * SEEDS - 1)
    }
    assert not off


@pytest.mark.parametrize("name", EXACT)
def test_jobs_without_chance_are_exactly_as_brute_force_says(name: str) -> None:
    """Arrivals are given and services are even, so that every window and latency is known."""
    assert not [each for each in compare(name, JOBS[name], seeds=2) if each.off_se]


CONSOLIDATES = """
s: {arrivals: {law: constant, rate_per_s: 50}}
w: {kind: compute, from: s, keys: 1, key_groups: 1, partial_s: 2, sharing: panes, ms: 0.5}
c: {kind: consolidate, from: w, keys: 1, key_groups: 1, ms: 0, merge_time_s: 0.001, windows: [{length_s: 4}%s]}
"""


def test_windows_that_end_together_are_merged() -> None:
    """A window of 10 s is formed of 3 pieces every 2 s, one of 4 s of 2 pieces every 4 s: 2 a second, 1 ms each."""
    job = filled_in(yaml.safe_load(CONSOLIDATES % ", {length_s: 10, every_s: 2}" + "out: {from: c}"))
    run = simulate(scenario("merging", job | {"run": {"horizon_s": 61, "warmup_s": 21}}, seed=1))
    assert run.operators[2].busy == pytest.approx(2e-3)


def test_a_consolidate_has_other_consumers_beside_a_consolidate() -> None:
    """Windows of 4 s go to a sink and into windows of 8 s: 12 and 6 of them end between 10 s and a minute."""
    rest = (
        "d: {kind: consolidate, from: c, keys: 1, key_groups: 1, windows: [{length_s: 8}], ms: 0}\nout: {from: [c, d]}"
    )
    run = simulate(scenario("both", filled_in(yaml.safe_load(CONSOLIDATES % "" + rest)), seed=1))
    assert [each.records_in for each in run.operators[3:]] == [12, 18]


@pytest.mark.parametrize(
    ("name", "load", "service_s", "scv"),
    [("one-queue", 0.6, 1.2e-3, 1.0), ("even-service", 0.8, 1.6e-3, 0.0), ("uneven-service", 0.5, 1e-3, 4.0)],
)
def test_brute_force_is_as_theory_says(name: str, load: float, service_s: float, scv: float) -> None:
    """Brute force has the mean wait of M/G/1 (Pollaczek and Khinchine)."""
    found = np.array([Brute(JOBS[name], seed).run()["Lp"] for seed in range(12)])
    error = found.std(ddof=1) / np.sqrt(len(found))
    assert abs(found.mean() - service_s - oracles.wait_m_g_1(load, service_s, scv)) < limit_se(13) * error


WORK = {"kind": "map", "name": "work", "selectivity": 1, "service_time_s": 1e-3}


def latency_s() -> float:
    job = chain([WORK], 500).model_copy(update={"engine": FLINK})
    return float(RateModel(1e4).answer(job, [job.plan]).costs["processing_latency_s"][0])


@pytest.mark.parametrize("law", LAWS)
def test_every_law_can_be_taken_out_and_is_back_then(law: str) -> None:
    proper_s = latency_s()
    with without(LAWS[law]):
        plain_s = latency_s()
    assert latency_s() == proper_s
    assert (plain_s < proper_s) == (law == "waits for batches, and in them")
