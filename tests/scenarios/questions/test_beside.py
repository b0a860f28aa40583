"""A prediction beside runs: the runs decide, and a contradiction is said with what explains it, in one sentence."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizers.interface import Solution, Status
from optimizers.planner import TWICE, rates_at
from scenarios.beside import APART, PredictionBesideRuns
from scenarios.files.documents import document, read
from scenarios.planning import planner
from scenarios.planning.bench import SimulatedCostModel
from scenarios.planning.validation import validate
from scenarios.questions import prediction
from scenarios.questions.capacity import CapacityAnswer
from streamtwin.answers import plans
from streamtwin.answers.capacity import told
from streamtwin.connect.shadow import _careful as careful_of_a_forecast
from streamtwin.serve.inquiry import Inquiry
from streamtwin.serve.session import Asked
from tests.commands import twin
from tests.scenarios.questions.jobs import queue, shop
from tests.scenarios.questions.test_capacity import MU, RATE, asked
from twin.metrics import Estimates
from twin.rates.model import RateModel
from twin.simulation import simulate

POSITIVE = st.floats(1e-6, 1e6)


@given(predicted=POSITIVE, run=POSITIVE)
def test_only_what_is_beyond_a_fifth_is_a_contradiction(predicted, run):
    beside, other = PredictionBesideRuns.of(predicted, run), PredictionBesideRuns.of(run, predicted)
    factor = max(predicted / run, run / predicted)
    assert math.isclose(beside.factor * other.factor, 1.0)
    if not math.isclose(factor, APART):
        assert beside.agrees == other.agrees == (factor < APART) == (beside.careful == "")
    assert ("too high" in beside.off) == ("too low" in other.off)
    assert beside.agrees or beside.off in beside.careful
    assert len(beside.told("x")) == 1 + (not beside.agrees)


def test_errors_are_shares_or_factors():
    said = {value: PredictionBesideRuns.of(value, 100.0) for value in (100.2, 112.0, 88.0, 704.0, 25.0)}
    assert [each.off for each in said.values()] == [
        "within 1 %",
        "12 % too high",
        "12 % too low",
        "too high by a factor of 7.04",
        "too low by a factor of 4",
    ]
    assert PredictionBesideRuns.of(994_000.0, 100.0).off == "too high by a factor of 9,940"
    assert [each.off_short for each in said.values()] == ["+0 %", "+12 %", "-12 %", "x 7", "x 0.25"]
    far = (990_000.0, 0.0012, 1e17)
    assert [PredictionBesideRuns.of(value, 100.0).off_short for value in far] == [
        "x 9,900",
        "x 0.000012",
        "x 1,000,000,000,000,000",
    ]


def test_what_explains_a_contradiction_is_named_once_or_is_a_fault_of_the_model():
    blind = PredictionBesideRuns.of(3.0, 1.0, ("pauses", "jitter", "pauses")).careful
    assert "the rate model does not see: pauses; jitter" in blind and "fault" not in blind
    assert "claims to see all of this job, so this is its fault" in PredictionBesideRuns.of(3.0, 1.0).careful
    learned = PredictionBesideRuns.of(3.0, 1.0, model="mine").careful
    assert "the cost model mine claims" in learned


def test_no_value_beside_a_value_is_a_contradiction_and_so_is_another_judgement():
    for predicted, run in ((None, 1.0), (1.0, None), (math.inf, 1.0), (0.0, 1.0)):
        assert not PredictionBesideRuns.of(predicted, run).agrees
    assert (
        "by the runs there is a value, and by the prediction there is none"
        in PredictionBesideRuns.of(None, 1.0).careful
    )
    assert (
        "by the prediction there is a value, and by the runs there is none"
        in PredictionBesideRuns.of(1.0, None).careful
    )
    for predicted, run in ((0.0, 2.5), (2.5, 0.0)):
        assert f"is {predicted:g}, and the runs give {run:g}" in PredictionBesideRuns.of(predicted, run).careful
    assert PredictionBesideRuns.of(None, None).agrees and PredictionBesideRuns.of(0.0, 0.0).agrees
    assert PredictionBesideRuns.of(2.0, 3.0, interval=(2.0, 3.0)).agrees
    judged = PredictionBesideRuns.of(1.0, 1.0, keep_up=(True, False))
    assert "predicts that the job keeps up, but in runs it does not keep up" in judged.careful
    assert PredictionBesideRuns.of(1.0, 1.0, keep_up=(False, False)).agrees


def consistent_words(answer):
    return [line for line in told(answer).sentences if "consistent" in line or "no other is predicted" in line]


@pytest.mark.parametrize("sees_all", [False, True])
def test_the_runs_decide_on_a_limit_that_is_predicted_otherwise(monkeypatch, sees_all):
    """The rate model is made to see half of the costs, as a faulty one might."""
    whole = prediction.measures_predicted

    def half(scenario, model=None):
        factor = 0.5 if scenario.query.operator("work").service_time_s else 1.0
        return whole(scenario.with_set("query.operators.work.service_time_s", factor / MU), model)

    monkeypatch.setattr(prediction, "measures_predicted", half)
    noisy = {} if sees_all else {"noise": {"jitter_scv": 0.01}}
    scenario = queue(horizon_s=30)
    engine = {**scenario.engine.model_dump(mode="json"), "channel_records": 100, **noisy}
    answer = asked(scenario.with_set("engine", engine), "max", RATE, "not backpressured", replications=2)
    assert answer.predicted.value == pytest.approx(2 * MU / 0.99, rel=0.05)
    assert answer.value == pytest.approx(MU / 0.99, rel=0.05)
    assert not answer.beside.agrees and answer.beside.factor == pytest.approx(2.0, rel=0.1)
    assert answer.one_limit_by == "runs" and answer.longer_runs is not None  # nothing rests on the prediction alone
    assert answer.run_s == 30  # nor does the length of the runs
    sentences = told(answer).sentences
    (careful,) = (line for line in sentences if line.startswith("careful: the prediction is"))
    assert ("its fault" in careful) == sees_all and ("jitter" in careful) != sees_all
    assert sum("jitter" in line for line in sentences) == (not sees_all)
    assert not consistent_words(answer)
    assert read(CapacityAnswer, json.dumps(document(answer))).beside == answer.beside


def test_a_prediction_that_runs_confirm_stands_beside_them_with_its_error():
    answer = asked(queue(horizon_s=20), "min", "subtasks of work", "not backpressured", replications=2)
    assert answer.beside.agrees and not any(line.startswith("careful: the pred") for line in told(answer).sentences)
    assert asked(shop(horizon_s=4), "max", "load", "throughput_per_s > 1e9", replications=2).beside.agrees


def test_what_a_prediction_ignores_is_said_before_its_figure():
    conditions = ("--while", "not backpressured and e2e_latency_s.p99 < 9s")
    done = twin("capacity", "edge-filter", "--find-max", "load", "--predict-only", *conditions)
    line = " ".join(done.stdout.split())
    assert line.index("e2e_latency_s.p99") < line.index("load ") and line.startswith("predicted by rates (which ignore")


class Says:
    """Cost model with one answer for all plans."""

    name = "says"

    def __init__(self, latency_s, keeps_up):
        self.found = {"processing_latency_s": latency_s, "backpressured": 1.0 - keeps_up, "success": 1.0}

    def predict(self, scenario, given):
        known = RateModel().predict(scenario, given).by_metric
        ones = np.ones(len(given))
        return Estimates({**known, **{name: value * ones for name, value in self.found.items()}}, ones)

    def blind_to(self, scenario):
        return ("colours",)


def test_a_plan_that_runs_chose_has_its_prediction_beside_it():
    scenario = queue()
    solution = Solution(
        status=Status.FEASIBLE, plan=scenario.plan, objective=0.1, bound=None, evaluations=1, seconds=0.0, simulated=3
    )
    of = lambda model, found=solution, run=None: planner.beside_runs(  # noqa: E731
        scenario, model, found, "processing_latency_s", run
    )
    far, near, wrong = of(Says(0.3, True)), of(Says(0.11, True)), of(Says(0.1, False))
    assert far.factor == pytest.approx(3.0) and "colours" in far.careful
    assert near.agrees and not wrong.agrees
    assert of(Says(0.3, True), replace(solution, simulated=0)) is None
    assert of(Says(0.3, True), replace(solution, simulated=0), 0.3).agrees  # a job that was planned by profiles
    assert of(SimulatedCostModel(simulate)) is None
    assert planner.beside_runs(scenario, Says(0.3, True), solution, "price", None) is None


def test_validated_plans_say_what_was_predicted_wrongly_and_of_which_plans():
    rows = validate([queue()], planner.optimizers("as-given,governor"), [Says(5.0, True)], simulate, 1, 0, references=0)
    assert [row.beside.agrees for row in rows] == [False, False]
    (line,) = plans.careful(rows)
    assert "(as-given and governor)" in line and "colours" in line


def test_what_is_predicted_of_another_load_does_not_stand_beside_runs():
    """By rates a queue that bears 1,000 records a second fails at twice 700; runs at 700 are no contradiction."""
    scenario, twice = queue(rate_per_s=700), rates_at(TWICE)
    assert twice.predict(scenario, [scenario.plan])["backpressured"][0] >= 0.5
    rows = validate([scenario], planner.optimizers("as-given"), [twice], simulate, 1, 0, references=0)
    assert rows[0].beside is None and not plans.careful(rows)
    found = planner.optimize(scenario, "local-search", twice, budget="3runs")
    assert found.simulated and planner.beside_runs(scenario, twice, found, "processing_latency_s", None) is None


def test_the_page_says_how_far_the_prediction_was_off_when_the_run_is_done():
    asked_of = Asked(Inquiry("smart-grid"))
    run = simulate(asked_of.now)
    lines = asked_of.beside(run)
    assert lines[0].startswith("predicted by rates: an end-to-end latency of") and len(lines) == 1
    asked_of.predicted["e2e_latency_s"] *= 3
    assert "too high" in asked_of.beside(run)[1]


def test_a_forecast_that_a_run_contradicts_says_so():
    scenario = queue()
    assert careful_of_a_forecast(scenario, True, False) == careful_of_a_forecast(scenario, None, None) == ""
    assert "does not keep up, but in runs it keeps up" in careful_of_a_forecast(scenario, False, False)
    assert "keeps up, but in runs it does not keep up" in careful_of_a_forecast(scenario, True, True)


@pytest.mark.parametrize(("load", "right"), [(0.8, True), (1.4, False)])
def test_keeps_up_is_one_judgement_in_conditions_as_in_runs(load, right):
    """Of 700 or 1,400 records a second a queue that bears 1,000 keeps up with the former, however deep its channels."""
    from scenarios.measures import condition, measures

    scenario = queue(rate_per_s=1000 * load, horizon_s=60)
    scenario = scenario.with_set("engine", {**scenario.engine.model_dump(mode="json"), "channel_records": 100_000})
    run = simulate(scenario)
    assert not run.metrics.backpressured and run.metrics.keeps_up == right
    assert condition("keeps_up", scenario).holds(measures(run)) == right
    assert condition("not backpressured", scenario).holds(measures(run))
