"""Cost models of users, in a file; and the handling of those that misbehave."""

from __future__ import annotations

import numpy as np
import pytest

from scenarios.files.scenario_file import load
from scenarios.planning import planner
from scenarios.planning.cost_models import cost_model, cost_models, planner_for
from scenarios.planning.validation import validate
from tests.commands import ROOT, answer, refused
from twin.errors import BadInput
from twin.metrics import METRICS, Estimates, Ranged, Unsure
from twin.rates.model import RateModel
from twin.simulation import simulate

EXAMPLE = ROOT / "docs" / "examples" / "busiest_host.py"
OWN = """
import numpy as np
from twin.metrics import METRICS, Estimates
from twin.rates.model import RateModel

class Good:
    name = "good"
    def predict(self, scenario, plans):
        return RateModel().predict(scenario, plans)
    def blind_to(self, scenario):
        return ("all that rates do not see",)

class Sure(Good):
    name = "sure"
    def interval(self, scenario, plans, metric):
        found = self.predict(scenario, plans)[metric]
        return np.stack([0.5 * found, 2.0 * found])
    def beyond(self, scenario):
        raise KeyError("range")

class Raises(Good):
    name = "raises"
    def predict(self, scenario, plans):
        raise ZeroDivisionError("of my own")

class Silent(Good):
    name = "silent"
    def predict(self, scenario, plans):
        return None

class Changed(Good):
    change = None
    def predict(self, scenario, plans):
        found = dict(super().predict(scenario, plans).by_metric)
        self.change(found)
        return Estimates(found, np.zeros(len(plans)))

class Uncertain(Changed):
    name = "uncertain"
    def change(self, found):
        found["processing_latency_s"] = np.full_like(found["processing_latency_s"], np.nan)

class Short(Changed):
    name = "short"
    def change(self, found):
        found["processing_latency_s"] = np.ones((2, 2))

class Partial(Changed):
    name = "partial"
    def change(self, found):
        del found["success"]

class Negative(Changed):
    name = "negative"
    def change(self, found):
        found["processing_latency_s"] = -found["processing_latency_s"]

class Overconfident(Changed):
    name = "overconfident"
    def change(self, found):
        found["success"] = 100.0 * np.ones(len(found["success"]))

class Wordy(Changed):
    name = "wordy"
    def change(self, found):
        found["success"] = ["yes"] * len(found["success"])

class Mute(Good):
    name = "mute"
    def blind_to(self, scenario):
        return None

class Nameless:
    def predict(self, scenario, plans):
        return None
    def blind_to(self, scenario):
        return ()

class Frank:
    name = "frank"
    def predict(self, scenario, plans):
        return None

class Broken(Good):
    def __init__(self):
        raise RuntimeError("not today")

class Rates(Good):
    name = "rates"
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(OWN, encoding="utf-8")
    return path


def short(name="edge-filter"):
    return load(name).with_run(horizon_s=4.0, warmup_s=0.0, period_s=2.0)


def test_ones_own_model_is_asked_as_ours_is(file):
    """The same predictions give the same plan, by the same search."""
    own = planner.optimize(short(), "local-search", f"{file}:Good", estimates=60)
    ours = planner.optimize(short(), "local-search", "rates", estimates=60)
    assert (own.objective, own.plan) == (ours.objective, ours.plan)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Nameless", "needs a `name`, a method `predict"),
        ("Frank", "a method `blind_to"),
        ("Broken", "cannot be made: RuntimeError: not today"),
        ("Missing", "has no 'Missing'"),
        ("good", "did you mean 'Good'"),
        ("Rates", "is named 'rates', as one of streamtwin is; give it another name"),
    ],
)
def test_what_is_wrong_with_ones_own_is_said(file, name, words):
    with pytest.raises(BadInput, match=words):
        cost_model(f"{file}:{name}")


def test_a_file_that_is_not_there_or_does_not_load(tmp_path):
    with pytest.raises(BadInput, match="there is no file"):
        cost_model(f"{tmp_path}/none.py:X")
    with pytest.raises(BadInput, match=r"write mine\.py:CLASS"):
        cost_model("mine.py")
    (tmp_path / "bad.py").write_text("import nothing_like_it", encoding="utf-8")
    with pytest.raises(BadInput, match=r"--cost-model '.*bad\.py:X' cannot be loaded: ModuleNotFoundError"):
        cost_model(f"{tmp_path}/bad.py:X")


FAULTS = {
    "Raises": "raised ZeroDivisionError: of my own",
    "Silent": "predict returned NoneType, not Estimates",
    "Uncertain": "predicts NaN for processing_latency_s of plan 1 of",
    "Short": r"predicts an array of shape \(2, 2\) for processing_latency_s, not",
    "Partial": "predict returned no success; it must estimate throughput_per_s, ",
    "Negative": "predicts less than 0 for processing_latency_s of plan 1 of",
    "Overconfident": "predicts a probability outside of 0 to 1 for success",
    "Wordy": "predicts no numbers for success",
}


@pytest.mark.parametrize(("name", "words"), FAULTS.items())
@pytest.mark.parametrize("optimizer", ["local-search", "milp"])
def test_where_it_alone_was_asked_it_is_told_what_it_did(file, name, words, optimizer):
    with pytest.raises(BadInput, match=f"^cost model '{name.lower()}' {words}") as refused:
        planner.optimize(short(), optimizer, f"{file}:{name}", estimates=20)
    assert "\n" not in str(refused.value)


def test_every_kind_of_failure_is_a_row_and_the_table_is_whole(file):
    names = ["Good", *FAULTS]
    models = list(cost_models(",".join(f"{file}:{name}" for name in names)).values())
    chosen = planner.optimizers("local-search")
    rows = validate([short()], chosen, models, simulate, 1, 0, budget=20, references=2, planner_of=planner_for)
    assert {row.cost_model: row.status for row in rows} == {
        "good": "feasible",
        **{name.lower(): "failed" for name in FAULTS},
    }
    messages = {row.cost_model: row.message for row in rows}
    assert "raised ZeroDivisionError: of my own" in messages["raises"]


def test_what_a_model_may_say_besides_is_heard(file):
    good, sure = (cost_model(f"{file}:{name}") for name in ("Good", "Sure"))
    assert not isinstance(good, Unsure | Ranged)
    assert isinstance(sure, Unsure) and isinstance(sure, Ranged)
    job = short()
    low_high = sure.interval(job, [job.plan], "processing_latency_s")
    assert low_high is not None and low_high[1, 0] == pytest.approx(4.0 * low_high[0, 0])
    with pytest.raises(BadInput, match="cost model 'sure' raised KeyError: 'range'"):
        planner.beyond(job, sure)
    with pytest.raises(BadInput, match="cost model 'mute' blind_to returned None, not a sequence of texts"):
        cost_model(f"{file}:Mute").blind_to(job)


def test_estimates_come_through_unchanged(file):
    job = short()
    own, ours = (each.predict(job, [job.plan] * 3) for each in (cost_model(f"{file}:Good"), RateModel()))
    assert isinstance(own, Estimates)
    for metric in METRICS:
        np.testing.assert_array_equal(own[metric], ours[metric])


def test_the_example_of_the_docs_plans_and_is_judged_on_the_command_line():
    name = f"{EXAMPLE}:BusiestHost"
    chosen = answer("optimize", "smart-grid", "--cost-model", name, "--estimates", 50)
    assert chosen["cost_model"] == name and chosen["keeps_up"]
    assert chosen["blind_to"] == ["links, memory and windows"]
    few = ["--replications", 1, "--references", 2, "--estimates", 50]
    judged = answer("validate", "edge-filter", "--optimizers", "local-search", "--cost-model", f"rates,{name}", *few)
    assert {row["cost_model"] for row in judged["rows"]} >= {"rates", "busiest-host"}
    suite = ["benchmark", "--families", "numa", "--most", 1, "--optimizers", "milp", "--cost-model", f"rates,{name}"]
    board = answer(*suite, "--replications", 1, "--references", 2)
    assert {row["cost_model"]: row["status"] for row in board["rows"]}.keys() >= {"rates", "busiest-host"}
    assert all(row["status"] in ("optimal", "feasible") for row in board["rows"])


def test_a_fault_is_one_line_on_the_command_line(file):
    line = refused("optimize", "edge-filter", "--cost-model", f"{file}:Raises", "--estimates", 20)
    assert line.startswith("twin: cost model 'raises' raised ZeroDivisionError: of my own; see 'twin --traceback'")
