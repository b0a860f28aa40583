"""The harness of the validity report: its oracles against closed forms, its cache, its sets, its statistics."""

from __future__ import annotations

import json
from itertools import combinations

import numpy as np
import pytest

from benchmarks.validity import oracles
from benchmarks.validity.cases import FAMILIES, FIRST_SEEDS, KINDS, case_of
from benchmarks.validity.invariants import WAYS
from benchmarks.validity.laws import laws_of
from benchmarks.validity.selection import FILE, chosen, exact_jobs, fast_job
from benchmarks.validity.theory import checks
from twin.rates.model import RateModel


@pytest.mark.slow
def test_oracles_agree_where_they_meet() -> None:
    assert oracles.wait_m_m_c(1, 0.8, 1.0) == pytest.approx(oracles.wait_m_g_1(0.8, 1.0, 1.0))
    jackson = 0.7e-3 / 0.3 + 0.6e-3 / 0.4
    rates = (1 / 0.7e-3, 1 / 0.6e-3)
    assert oracles.sojourn_blocking_tandem(1000, rates, places=60) == pytest.approx(jackson, rel=1e-3)
    assert oracles.throughput_blocking_tandem((1.0, 1.0), 4) == pytest.approx(6 / 7)
    loss, wait_s = oracles.loss_m_m_c_k(1, 400, 0.8, 1.0)
    assert loss == pytest.approx(0, abs=1e-9) and wait_s == pytest.approx(oracles.wait_m_g_1(0.8, 1.0, 1.0))
    assert oracles.loss_m_m_c_k(3, 3, 2.0, 1.0)[0] == pytest.approx((8 / 6) / (1 + 2 + 2 + 8 / 6))  # Erlang B
    assert oracles.wait_d_m_1(0.8, 1.0) < oracles.wait_m_g_1(0.8, 1.0, 1.0)
    assert oracles.wait_erlang_m_1(1, 0.8, 1.0) == pytest.approx(oracles.wait_m_g_1(0.8, 1.0, 1.0))
    assert oracles.wait_erlang_m_1(500, 0.8, 1.0) == pytest.approx(oracles.wait_d_m_1(0.8, 1.0), rel=5e-3)
    assert oracles.wait_erlang_g_1(4, 0.6, 1.0, 1.0) == pytest.approx(oracles.wait_erlang_m_1(4, 0.6, 1.0), rel=1e-5)
    assert oracles.wait_erlang_g_1(1, 0.6, 1.0, 0.25) == pytest.approx(oracles.wait_m_g_1(0.6, 1.0, 0.25), rel=1e-5)
    idle = 1 - 0.4 - 0.4  # of the core
    assert all(0.4 < each < 1 - idle for each in oracles.busy_shared_core(1.0, (2.5, 2.5)))
    # the first of two operators on a core needs half of it at least; with no work in the second, all
    assert oracles.sojourn_shared_core(1.0, (2.0, 1e6)) == pytest.approx(1.0, rel=1e-3)


def test_sets_are_disjoint_in_their_ranges_and_reproducible() -> None:
    kept = json.loads(FILE.read_text(encoding="utf-8"))
    sets = {name: {seed for cell in each["seeds"].values() for seed in cell} for name, each in kept.items()}
    assert all(not sets[a] & sets[b] for a, b in combinations(sets, 2))
    for (family, which), first in FIRST_SEEDS.items():
        seeds, scanned = sets[f"{family} {which}"], kept[f"{family} {which}"]["scanned"]
        assert all(first <= seed < first + scanned for seed in seeds)
    assert len(sets["costream heldout"]) >= 100
    for family in FAMILIES:
        seed = min(sets[f"{family} dev"])
        first = case_of(family, seed)
        assert first is not None and first == case_of(family, seed, first.settled)
        small = chosen(family, "dev", "small")
        assert {case.kind for case in small} == set(KINDS[family])


def test_weak_hosts_are_loaded_as_drawn() -> None:
    for case in chosen("shared", "dev", "small"):
        assert len(case.deployment.cluster.hosts) <= 2
        assert all(host.cpu_percent <= 200 for host in case.deployment.cluster.hosts)


def test_every_check_can_be_run_and_each_way_differs() -> None:
    laws = checks()
    assert len({(each.law, each.case) for each in laws}) == len(laws)
    assert all((each.expected is None or each.expected > 0) and each.jobs("fast", 1, 1.0)[0].cost > 0 for each in laws)
    assert len(set(WAYS)) == len(WAYS)
    assert fast_job(chosen("costream", "dev", "small")[0]).settings.seed == 3


def test_ordinary_jobs_are_of_all_sorts_and_loaded_as_drawn() -> None:
    for which in ("heldout", "dev"):
        cases = chosen("ordinary", which, "full")
        jobs = [case.deployment for case in cases]
        assert {job.engine.name for job in jobs} == {"storm", "flink"}
        assert {bool(job.cluster.links) for job in jobs} == {True, False}
        assert {"joins", "join costs", "aggregates", "sharing", "dealing"} <= set().union(*map(laws_of, jobs))
        assert all(max(map(len, job.plan.placement.values())) > 1 for job in jobs)
        answers = [RateModel(case.settings.horizon_s).answer(case.deployment, [case.deployment.plan]) for case in cases]
        used = np.array([answer.offered_pressure.max() for answer in answers])
        assert used.min() < 0.4 and used.max() > 1.0 and np.all((used > 0.05) & (used < 1.6))
        assert max(job.cost for job in exact_jobs(which, cases)) < 1.5e6


def test_a_chosen_job_does_not_ask_the_rate_model_again(monkeypatch: pytest.MonkeyPatch) -> None:
    before = [*chosen("ordinary", "dev", "small"), *chosen("shared", "dev", "small")]
    monkeypatch.setattr(RateModel, "answer", None)
    monkeypatch.setattr("benchmarks.validity.cases.pressure", None)
    assert before == [*chosen("ordinary", "dev", "small"), *chosen("shared", "dev", "small")]
