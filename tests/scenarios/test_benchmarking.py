"""Runs of the suite: what is kept, what is made once, and how answers other than placements are judged."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizers.balancing.solvers import SOLVERS
from scenarios import benchmarking
from scenarios import benchmarking as run
from scenarios.benchmarking import BenchmarkRequest, Piece, ProblemAnswer, pieces, rows
from scenarios.executing import Processes
from scenarios.planning.bench import Remembered, spared_s
from scenarios.planning.validation import ValidationRow, standings
from scenarios.suite import FAMILIES, MEMBERS, changing
from tests.scenarios.test_validation import fake
from twin.errors import BadInput
from twin.simulation import simulate

REQUEST = BenchmarkRequest(optimizers=None, cost_models="rates", replications=1)


@given(st.lists(st.tuples(st.floats(0.1, 9), st.integers(0, 2)), min_size=1, max_size=8), st.booleans())
def test_the_best_answer_has_no_regret_and_a_worse_kind_is_beyond_all(given, relative):
    answers = [ProblemAnswer(f"o{n}", "-", cost, kind) for n, (cost, kind) in enumerate(given)]
    found = rows(
        "problem", "price", [*answers, ProblemAnswer("no", "-", refusal="cannot")], worst=10.0 if relative else None
    )
    best = min(answers, key=lambda each: (each.kind, each.cost))
    for answer, row in zip(answers, found, strict=False):
        assert (row.regret == math.inf) == (answer.kind != best.kind)
        if answer.kind == best.kind:
            base = 10.0 - best.cost if relative else best.cost
            assert row.regret == pytest.approx((answer.cost - best.cost) / base)
    assert (found[-1].status, found[-1].regret, found[-1].message) == ("refused", None, "cannot")


def test_who_migrates_more_than_allowed_is_of_a_worse_kind(monkeypatch):
    class Greedy:
        def solve(self, balance):
            return SimpleNamespace(distance=0.0, cost=1.01 * balance.budget)

    monkeypatch.setattr(benchmarking, "SOLVERS", {"greedy": Greedy(), "search": SOLVERS["search"]})
    greedy, search, given = benchmarking.balances("key-groups", 0, REQUEST)
    assert greedy.backpressured and greedy.regret == math.inf
    assert (search.regret, given.regret) == (0.0, pytest.approx(1.0))


def test_who_fails_once_stands_below_who_is_worse_each_time():
    def row(optimizer, **more):
        return ValidationRow(scenario="s", optimizer=optimizer, cost_model="-", objective="price", **more)

    rows = [row("brilliant", status="feasible", regret=0.0), row("brilliant", status="failed")]
    rows += [row("steady", status="feasible", regret=0.5)] * 2
    first, second = standings(rows)
    assert (first.optimizer, first.mean, second.mean, second.failed) == ("steady", 0.5, 0.0, 1)


def test_where_all_loads_are_the_mean_the_plan_by_rates_stands_for_each():
    def row(scenario, model, regret):
        told = {"objective": "price", "status": "feasible", "regret": regret}
        return ValidationRow(scenario=scenario, optimizer="o", cost_model=model, **told)

    rows = [row("steady", "rates", 0.1), row("steady", "learned", 0.2), row("bursts", "learned", 0.4)]
    rows += [row("bursts", "rates", 0.9), row("bursts", "rates:peak", 0.3)]
    found = {line.cost_model: (line.scenarios, line.mean) for line in standings(rows)}
    assert found == {"rates": (2, 0.5), "rates:peak": (2, 0.2), "learned": (2, pytest.approx(0.3))}


def test_a_run_is_made_once_and_its_time_is_told():
    made = []

    def counted(scenario):
        made.append(scenario)
        return fake()(scenario)

    once, job = Remembered(counted), FAMILIES["numa"].member(0)
    first = once(job).metrics
    assert spared_s(once) == 0.0 == spared_s(counted)
    assert once(job).metrics == first
    assert len(made) == 1 and spared_s(once) > 0.0
    once(job.with_run(seed=job.run.seed + 1))
    assert len(made) == 2


def test_what_is_judged_is_kept_and_not_judged_again(tmp_path, monkeypatch):
    judged = []

    def judge(family, number, request):
        judged.append((family, number))
        if number == 2:
            raise KeyboardInterrupt
        return rows(
            family,
            "price",
            [ProblemAnswer("a", "-", 1.0), ProblemAnswer("b", "-", 2.0, 1), ProblemAnswer("c", "-", refusal="no")],
        )

    monkeypatch.setitem(run.JUDGES, "balance", judge)
    wanted = pieces(["key-groups"], 3)
    with pytest.raises(KeyboardInterrupt):
        run.judged_rows(wanted, REQUEST, tmp_path, Processes(1), lambda _done, _total: None)
    assert [each.number for each in wanted] == [0, 1, 2] == [number for _, number in judged]
    first = run.judged_rows(wanted[:2], REQUEST, tmp_path, Processes(1), lambda _done, _total: None)
    assert len(judged) == 3
    assert [row.regret for row in first["key-groups"]] == [0.0, math.inf, None] * 2
    (tmp_path / run.FOLDER / Piece("key-groups", 0).file).write_text("[{}]")
    with pytest.raises(BadInput, match="is damaged; remove it"):
        run.judged_rows(wanted[:1], REQUEST, tmp_path, Processes(1), lambda _done, _total: None)
    with pytest.raises(BadInput, match="at least 1"):
        run.judged_rows(wanted, REQUEST, None, Processes(0), lambda _done, _total: None)


def test_every_family_is_judged_by_somebody():
    assert {each.asks for each in MEMBERS.values()} == set(run.JUDGES)
    assert {name for name, each in MEMBERS.items() if each.asks in ("placement", "hosts")} == set(FAMILIES)


@pytest.mark.slow
def test_balances_are_judged_by_all_solvers_and_a_broken_budget_shows():
    found = run.judge(Piece("key-groups", 1), REQUEST)
    regrets = {row.optimizer: row.regret for row in found}
    assert set(regrets) == {*SOLVERS, "as-given"}
    assert regrets["as-given"] == 1.0
    assert min(regrets.values()) == 0.0
    assert regrets["cola"] == math.inf  # it counts no migrations


def test_loads_that_change_are_too_much_for_one_subtask_at_their_peak_only():
    for seed in MEMBERS["changing-load"].seeds:
        job = changing(seed)
        (service_s,) = (each.service_time_s for each in job.query.operators if each.name == "enrich")
        rate = job.workload.arrivals["events"].mean_rate_per_s
        assert rate * service_s < 0.7
        assert max(event.factor for event in job.events) * rate * service_s > 1.2


@pytest.mark.slow
def test_hosts_and_policies_are_judged_by_runs():
    found = {row.optimizer: row for row in run.judge(Piece("cheapest-hosts", 1), REQUEST)}
    assert found["milp-hosts"].regret == 0.0 < found["as-given"].regret
    assert not found["milp-hosts"].backpressured
    found = {row.optimizer: row for row in run.judge(Piece("changing-load", 4), REQUEST)}
    assert found["ds2"].regret == 0.0
    assert found["none"].regret > 1.0
    assert found["flux"].status == "refused"
    assert simulate(changing(MEMBERS["changing-load"].seeds[4])).metrics.success
