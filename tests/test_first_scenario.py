"""Tests of the guide from nothing: its files run as they stand, and do what it says of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import streamtwin as st
from scenarios.files.scenario_file import load, parse_scenario, set_values
from scenarios.questions.knobs import knob
from scenarios.questions.variants import VariantsQuestion, variants

DOCS = Path(__file__).resolve().parent.parent / "docs"
ORDERS = re.findall(r"```yaml\n(.*?)```", (DOCS / "first-scenario.md").read_text(encoding="utf-8"), re.DOTALL)[0]


@pytest.fixture(scope="module")
def orders() -> st.Result:
    return st.run(parse_scenario(ORDERS, "orders.yaml"))


@pytest.fixture(scope="module")
def gate() -> st.Scenario:
    return load(str(DOCS / "examples" / "gate.yaml"))


def test_a_statement_of_sql_counts_each_page_once_a_minute() -> None:
    """As many results as pages with clicks, in each of the four minutes; not before the watermark and a checkpoint."""
    found = st.run(load(str(DOCS / "examples" / "clicks-per-page.yaml")))
    assert found.keeps_up and found.metrics.records_out == 4 * 1000
    assert found.metrics.result_delay_s.mean > 5.0
    assert found.operators.loc["clicks", "busy"] == pytest.approx(2000 / 4 * 20e-6, rel=0.1)
    assert not [line for line in found.warnings if "heap" in line]


def test_busy_times_are_those_that_were_put_in(orders):
    assert orders.keeps_up
    assert orders.operators.loc["enrich", "busy"] == pytest.approx(0.30, abs=0.015)
    assert orders.operators.loc["orders", "busy"] == pytest.approx(0.09, abs=0.01)


def test_the_values_that_are_varied_are_there(orders, gate):
    free = set_values(orders.job, ["query.streams.orders->enrich.partitioning=rebalance"])
    assert len(variants(free, VariantsQuestion(vary=["subtasks of enrich=6,8"]))) == 3
    assert knob("workload.arrivals.orders.rate_per_s", "--find-max").given(orders.job) == 6000
    assert len(variants(gate, VariantsQuestion(vary=["cluster.links.0.bandwidth_mbps=5,10,20"]))) == 3
    assert knob("workload.arrivals.camera-1.rate_per_s", "--find-max").given(gate) == 150


def test_all_on_the_box_does_not_keep_up_and_in_the_room_it_does(gate):
    given = st.run(gate)
    assert not given.keeps_up
    assert "the CPU of box" in given.verdict
    moved = {"moving": ("room",), "detect": ("room",), "count": ("room",)}
    room = st.run(gate.with_plan(gate.plan.with_placement({**gate.plan.placement, **moved})))
    assert room.keeps_up
    assert room.links.loc["box->room", "sent_mbps"] == pytest.approx(14.4, rel=0.05)


def test_the_optimizer_finds_a_plan_that_keeps_up_and_is_fresh(gate):
    solution = st.optimize(gate, objective="e2e_latency_s")
    assert solution.plan is not None
    found = st.run(gate.with_plan(solution.plan))
    assert found.keeps_up
