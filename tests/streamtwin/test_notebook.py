"""Library in a notebook: results as data frames that agree with the run, answers, executed notebooks."""

from __future__ import annotations

import json
import re
import shlex
import xml.etree.ElementTree as ET
from typing import Any

import numpy as np
import pytest

import streamtwin as st
from tests import commands
from tests.scenarios.questions.jobs import queue, shop
from tests.streamtwin.notebooks import NOTEBOOKS, cells, executed
from tests.streamtwin.report_checks import whole
from twin.events import Migration


@pytest.fixture(scope="module")
def result() -> st.Result:
    return st.run(shop().with_events(Migration(at_s=6, operator="per-page", subtask=0, to="w-3")), horizon_s=10)


def test_frames_say_what_the_run_says(result):
    for each in result.run.operators:
        assert result.operators.loc[each.operator, "busy"] == each.busy
    assert result.hosts["cpu"].to_dict() == {each.host: each.cpu for each in result.run.hosts}
    assert set(result.links.index) == {each.link for each in result.run.links}
    assert list(result.events["kind"]) == ["migration"]
    assert list(st.run(queue(horizon_s=2, warmup_s=0)).events.columns) == list(result.events.columns)
    assert len(result.periods("hosts")) == len(result.run.host_rows)
    with pytest.raises(st.BadInput, match="did you mean 'hosts'"):
        result.periods("host")
    assert result.periods()["numRecordsIn"].sum() == sum(row["numRecordsIn"] for row in result.run.operator_rows)


def test_what_is_over_time_adds_up_to_what_is_overall(result):
    over = result.over_time()
    seconds = np.diff([0.0, *(result.periods().groupby("period")["end_s"].first())])
    arrived = result.periods()["arrived"].sum()
    assert (over["records a second", "arriving"] * seconds).sum() == pytest.approx(arrived)
    latency = over["end-to-end latency [s]"].dropna()
    assert (latency["p50"] <= latency["p95"]).all() and (latency["p95"] <= latency["p99"]).all()


def test_a_result_shows_itself_and_can_be_kept(result, tmp_path):
    shown = ET.fromstring(f"<div>{result._repr_html_()}</div>")
    assert result.verdict in "".join(shown.itertext())
    assert ET.fromstring(result.timelines) is not None
    assert repr(result.picture).startswith("<HTML")
    assert len(result.figure().axes) == 6
    whole(result.report(tmp_path / "r.html").read_text())
    assert st.read_run(result.save(tmp_path / "trace")).operators.equals(result.operators)
    (tmp_path / "mine.html").write_text("mine")
    with pytest.raises(st.BadInput, match="is no report"):
        result.report(tmp_path / "mine.html")


RATE, SERVICE = "workload.arrivals.in.rate_per_s", "query.operators.work.service_time_s"
QUESTIONS = {
    "whatif": (
        lambda job: st.whatif(job, {"subtasks of work": [1, 2]}, metrics=["e2e_latency_s.p95"], replications=3),
        "--vary 'subtasks of work=1,2' --metric e2e_latency_s.p95 --replications 3",
    ),
    "compare-policies": (
        lambda job: st.compare_policies(
            job.with_run(period_s=0.5), ["none", {"name": "ds2", "margin": 0.1}], slo_s=0.5, replications=2
        ),
        "--policies 'none,{name: ds2, margin: 0.1}' --slo 500ms --replications 2 --set run.period_s=0.5",
    ),
    "capacity": (
        lambda job: st.capacity(job, find_max=RATE, between=(100, 5000), precision=0.05, replications=2),
        f"--find-max {RATE} --between 100..5k --precision 5% --replications 2",
    ),
    "dry-run": (
        lambda job: st.dry_run(job, rescale={"work": ["big", "small"]}, at_s=1.5, replications=2, seed=3),
        "--rescale work=big,small --at 1.5 --replications 2 --seed 3",
    ),
    "sensitivity": (
        lambda job: st.sensitivity(job, {RATE: (100, 200), SERVICE: "1e-4..1e-3:log"}, samples=8, trajectories=2),
        f"--input {RATE}=100..200 --input {SERVICE}=1e-4..1e-3:log --samples 8 --trajectories 2",
    ),
}


@pytest.mark.parametrize("command", QUESTIONS)
def test_answers_are_those_of_the_command_line(command, tmp_path):
    ask, options = QUESTIONS[command]
    job = queue(horizon_s=3, warmup_s=0.5)
    answer = ask(job)
    (tmp_path / "queue.yaml").write_text(st.dump(job))
    told = commands.answer(command, tmp_path / "queue.yaml", *shlex.split(options), "--workers", 1)
    assert told == json.loads(json.dumps(answer.document))
    assert len(answer.frame) and answer.sentences
    ET.fromstring(f"<div>{answer._repr_html_()}</div>")


def test_an_answer_has_differences_and_words():
    answer = QUESTIONS["whatif"][0](queue(horizon_s=3, warmup_s=0.5))
    assert list(answer.frame["variant"]) == ["as given", "subtasks of work 2"]
    assert answer.frame["difference"].iloc[1] < 0
    assert "e2e_latency_s.p95: significantly lower in 'subtasks of work 2'" in answer.sentences[1]


def test_values_are_set_by_path():
    job = queue()
    assert job.with_set(RATE, 20).workload.arrivals["in"].rate_per_s == 20
    assert job.with_set(SERVICE, 1e-3).query.operator("work").service_time_s == 1e-3
    with pytest.raises(st.BadInput, match="did you mean 'work'"):
        job.with_set("query.operators.word", 1)


def test_a_service_of_minutes_is_told_and_one_of_milliseconds_is_not():
    told = [st.run(queue(service_s=service_s)).warnings for service_s in (100.0, 1e-3)]
    assert [[line for line in lines if "a record takes" in line] for lines in told] == [
        ["work: a record takes 100 s; service_time_s is in seconds; write 5ms for milliseconds"], []]  # fmt: skip


def test_what_questions_refuse():
    with pytest.raises(st.BadInput, match="either find_max or find_min"):
        st.capacity(queue())
    with pytest.raises(st.BadInput, match="are places for subtasks"):
        st.capacity(queue(), RATE, on=["small"])


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("dry_run", {"replications": "x"}, "dry_run: replications='x'; give a whole number"),
        ("whatif", {"vary": {"load": "1,2"}, "replications": 2.5}, "whatif: replications=2.5; give a whole number"),
        ("compare_policies", {"slo_s": "5s"}, "compare_policies: slo_s='5s'; give a number"),
        ("capacity", {"precision": True}, "capacity: precision=True; give a number"),
        ("capacity", {"prove": "no"}, "capacity: prove='no'; give True or False"),
    ],
)
def test_an_option_that_is_no_number_is_a_mistake_in_one_line(name, options, words):
    with pytest.raises(st.BadInput, match=re.escape(words)):
        getattr(st, name)("edge-filter", **options)


def test_numbers_of_numpy_are_numbers():
    assert st.capacity("edge-filter", find_max="load", precision=np.float32(0.01), prove=False).sentences


def test_scenarios_are_compared_by_label():
    slow, fast = queue(horizon_s=2, warmup_s=0.5), queue(service_s=5e-4, horizon_s=2, warmup_s=0.5)
    answer = st.compare({"slow": slow, "fast": fast}, replications=3, metrics=["operators.work.busy"])
    cell = answer.document["variants"][1]["metrics"]["operators.work.busy"]
    assert cell["share"] == pytest.approx(-0.5, abs=0.02)
    with pytest.raises(st.BadInput, match="nothing to compare"):
        st.compare({"slow": slow, "again": slow})
    with pytest.raises(st.BadInput, match="nothing to compare it with"):
        st.compare({})
    with pytest.raises(st.BadInput, match="without labels"):
        st.compare([slow, fast])
    with pytest.raises(st.BadInput, match="unknown metric"):
        st.compare({"slow": slow, "fast": fast}, metrics=["busy"])
    with pytest.raises(st.BadInput, match="at least 2"):
        st.compare({"slow": slow, "fast": fast}, replications=1)


def test_pictures_need_no_run():
    assert "per-page" in st.picture(shop())
    assert "in use:" not in st.picture(shop())


def test_frames_take_mappings_and_dataclasses(result):
    assert list(st.frame([{"a": 1, "b": 2}], "a").columns) == ["b"]
    assert len(st.frame([])) == 0 and len(st.frame([], "a")) == 0
    assert "host" in st.frame(result.run.hosts).columns


def test_there_are_two_notebooks_with_their_output():
    assert len(NOTEBOOKS) == 2
    for notebook in NOTEBOOKS:
        code = [cell for cell in cells(notebook) if cell["cell_type"] == "code"]
        assert all(cell["execution_count"] for cell in code)
        assert sum(bool(cell["outputs"]) for cell in code) >= 4
        assert not [out for cell in code for out in cell["outputs"] if out["output_type"] == "error"]


def text_of(output: dict[str, Any]) -> list[str]:
    """What one output of a cell says in words: without markup and numbers, which a learned model may move."""
    data = output.get("data", {})
    shown = "".join(data.get("text/html") or data.get("text/plain") or output.get("text", []))
    return re.findall(r"[a-z][a-z-]+", re.sub(r"<(?!title)[^>]*>", " ", shown).lower())


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run_and_what_they_keep_is_what_they_show(notebook):
    """`python -m tests.streamtwin.notebooks` writes outputs anew where words of pages have changed."""
    kept = [cell["outputs"] for cell in cells(notebook) if cell["cell_type"] == "code"]
    shown = [cell["outputs"] for cell in executed(notebook)["cells"] if cell["cell_type"] == "code"]
    for before, now in zip(kept, shown, strict=True):
        assert [text_of(output) for output in before] == [text_of(output) for output in now]
