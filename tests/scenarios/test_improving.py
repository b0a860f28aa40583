"""`twin improve`: what is chosen, how a choice is judged, what is refused; and a whole small course."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models import shipped
from models.checkpoint import save
from scenarios import improving
from scenarios.improving import (
    FAR,
    MEAN,
    STRATEGIES,
    JudgingJob,
    RoundRow,
    active,
    compared,
    job_pool,
    kind_of,
    rows_of,
)
from scenarios.questions.kept import RunOutcome
from scenarios.suite import FAMILIES
from tests.commands import done, refused
from twin.errors import BadInput
from twin.metrics import METRICS, Estimates
from twin.randomness import random_stream
from twin.rates.model import RateModel
from twin.scenario import config_hash

FAMILY = "edge-linear"


@given(st.lists(st.floats(0, 9), min_size=2, max_size=30), st.randoms(use_true_random=False), st.data())
def test_every_strategy_chooses_different_plans_and_active_both_kinds(spreads, chance, data):
    order = list(range(len(spreads)))
    chance.shuffle(order)
    count = data.draw(st.integers(1, len(spreads)))
    arguments = (np.array(spreads), np.array(order), random_stream(0, "strategy"), count)
    for choose in STRATEGIES.values():
        rows = choose(*arguments).tolist()
        assert len(set(rows)) == len(rows) == count
    best, disputed = np.split(active(*arguments), [(count + 1) // 2])
    assert best.tolist() == order[: len(best)]
    others = set(range(len(spreads))) - set(best.tolist())
    assert (
        sorted(spreads[row] for row in disputed)
        == sorted(spreads[row] for row in others)[len(others) - len(disputed) :]
    )


class Says:
    """Cost model with given answers for each plan."""

    name = "says"

    def __init__(self, latencies, backpressured=None):
        quiet = np.zeros(len(latencies)) if backpressured is None else np.array(backpressured, float)
        costs = {**{name: np.array(latencies, float) for name in METRICS}, "backpressured": quiet}
        self.estimates = Estimates({**costs, "success": np.ones(len(latencies))}, np.zeros(len(latencies)))

    def predict(self, scenario, plans):
        return self.estimates

    def blind_to(self, scenario):
        return ()


def outcome(latency_s, backpressured=0.0, success=1.0):
    return RunOutcome({MEAN: latency_s, "backpressured": backpressured, "success": success})


def question(*outcomes):
    job = FAMILIES[FAMILY].make(FAMILIES[FAMILY].seeds[0])
    return JudgingJob(job, [job.plan] * len(outcomes), outcomes)


def test_regret_is_to_the_best_simulated_plan_and_a_worse_kind_is_far():
    asked = question(outcome(2.0), outcome(1.0), outcome(0.5, backpressured=1.0), outcome(np.inf, success=0.0))
    assert asked.judged(Says([3, 1, 2, 4])).regret == 0.0
    found = asked.judged(Says([1, 4, 2, 4]))
    assert (found.regret, found.spoilt) == (1.0, False)
    assert found.errors.tolist() == [2.0, 4.0, 4.0]
    spoilt = asked.judged(Says([4, 4, 1, 4]))
    assert (spoilt.regret, spoilt.spoilt) == (FAR - 1, True)
    assert not asked.judged(Says([4, 3, 1, 5], backpressured=[0, 0, 1, 0])).spoilt
    assert [kind_of(each) for each in asked.outcomes] == [0, 0, 1, 2]


def test_the_sentence_knows_chance_from_difference():
    assert "no more than chance" in compared([0.1, 0.2, 0.3], [0.3, 0.2, 0.1], ("active", "random"))
    assert "random is better" in compared([0.3, 0.31, 0.29], [0.1, 0.1, 0.11], ("active", "random"))
    assert "says nothing" in compared([0.3], [0.1], ("active", "random"))
    asked = question(outcome(2.0), outcome(1.0))
    row = RoundRow.of("active", 1, 6, [asked.judged(Says([1, 2])), asked.judged(Says([2, 1]))])
    assert (row.regret, row.spoilt) == (0.5, 0)


def test_jobs_that_teach_are_none_that_judge_and_are_ever_new():
    for name in (FAMILY, "smart-grid"):
        where = job_pool(name, seed=3)
        teaching = [config_hash(where.teaching(number)) for number in range(3)]
        judging = [config_hash(where.judging(number)) for number in range(3)]
        assert len({*teaching, *judging}) == 6
        plans = where.plans(where.judging(0), 1, 20)
        assert len({str(sorted(each.placement.items())) for each in plans}) == len(plans) == 20
    members = FAMILIES[FAMILY].scenarios(1)
    assert config_hash(members[0]) == config_hash(
        job_pool(FAMILY, 0).judging(0).model_copy(update={"name": members[0].name})
    )


def test_rows_without_success_have_no_latency():
    job = question().job
    whole = {**dict.fromkeys(METRICS, 1.0), **{f"{name}.mean": 2.0 for name in METRICS}}
    rows = rows_of([job, job], [RunOutcome(whole), RunOutcome({**whole, "success": 0.0})])
    labels = {metric: rows.label_G(metric) for metric in METRICS}
    assert labels["processing_latency_s"][0] in (1.0, 2.0)
    assert np.isnan(labels["processing_latency_s"][1])
    assert labels["success"].tolist() == [1.0, 0.0]


def test_rows_are_of_what_was_measured_of_the_runs():
    jobs = [question().job.with_run(horizon_s=60, warmup_s=warmup_s) for warmup_s in (0, 30)]
    rows = rows_of(jobs, [RunOutcome({f"{name}.mean": 1.0 for name in METRICS} | {"success": 1.0})] * 2)
    for job, found in zip(jobs, rows.rates_GxA, strict=True):
        wanted = RateModel().predict(job, [job.plan])
        assert found[: len(METRICS)].tolist() == [wanted[metric][0] for metric in METRICS]


def test_refusals(tmp_path):
    with pytest.raises(BadInput, match="did you mean 'edge-linear'"):
        job_pool("edge-liner", 0)
    (ensemble,) = shipped.model().ensembles
    save(replace(ensemble, members=ensemble.members[:1]), tmp_path / "one")
    for arguments, words in (
        (["nowhere", "--on", FAMILY], "nowhere holds no cost model"),
        (["learned", "--on", FAMILY, "--against", "chance"], "'chance' is no strategy"),
        (["learned", "--on", FAMILY, "--runs", "9", "--pool", "8"], "give a larger pool"),
        (["learned", "--on", FAMILY, "--judges", "99"], "has 12 jobs to judge on"),
        ([str(tmp_path / "one"), "--on", FAMILY], "agrees with itself"),
    ):
        assert words in refused("improve", *arguments, "--out", str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_course_is_told_kept_and_gone_on_with(tmp_path, monkeypatch):
    monkeypatch.setattr(improving, "STEPS", 40)  # how much is learned is not asked here
    size = ["--jobs", "2", "--runs", "3", "--pool", "12", "--judges", "2", "--plans", "4", "--workers", "1"]
    out = tmp_path / "out"
    asked = ["improve", "learned", "--on", FAMILY, *size, "--out", str(out)]

    def answer(*more):
        done(*asked, *more)
        return json.loads((out / "answer.json").read_text())

    first = answer("--rounds", "1")
    assert [(row["strategy"], row["runs"]) for row in first["rows"]] == [("active", 0), ("active", 6)]
    runs = (out / "runs.jsonl").read_text().splitlines()
    assert len(runs) == 2 * 4 + 2 * 3
    both = answer("--rounds", "1", "--against", "random")
    assert both["rows"][:2] == first["rows"]
    assert (out / "runs.jsonl").read_text().splitlines()[: len(runs)] == runs
    assert "active minus random" in both["compared"]
    (model,) = (out / "models" / "active-1").glob("*.msgpack")
    model.write_bytes(model.read_bytes()[:-1])
    assert answer("--rounds", "1", "--against", "random")["rows"] == both["rows"], "what is damaged is learned again"
    assert (out / "figure.png").stat().st_size > 0
    assert sorted(each.name for each in (out / "models").iterdir()) == ["active-1", "random-1"]
    assert "another question" in refused(*asked, "--seed", "4")


def test_contradicting_options_are_refused(tmp_path) -> None:
    train = ("train", tmp_path / "rows", tmp_path / "out")
    assert "keeps the kind of its model" in refused(*train, "--from", tmp_path / "m", "--members", 2)
    assert "keeps the kind of its model" in refused(*train, "--from", tmp_path / "m", "--metrics", "success")
    assert "name the model with --from" in refused(*train, "--rehearse", tmp_path / "rows")
    assert "holds no cost model" in refused(*train, "--from", tmp_path / "m")
    (tmp_path / "job.yaml").write_text("name: job\n")
    for start in ((), ("--from", "learned")):
        assert "is no calibrated profile" in refused(*train, *start, "--profile", tmp_path / "job.yaml")
