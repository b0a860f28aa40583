"""What commands print with --json is what `twin schema COMMAND` says: no key more, none less, none of another type."""

from __future__ import annotations

import json
from typing import Any

import pytest
import typer
from pydantic import ValidationError

from scenarios.executing.processes import Processes
from scenarios.executing.progress import Lines
from scenarios.files.documents import check, document, plain, read
from scenarios.questions import capacity as capacities
from scenarios.questions import dry_run as dry_runs
from scenarios.questions import sensitivity as sensitivities
from scenarios.questions.bench import Bench
from scenarios.questions.change_options import ChangeOptions, planned
from scenarios.questions.condition import condition
from scenarios.questions.control_measures import judge
from scenarios.questions.knobs import knob
from scenarios.questions.policies_compared import compared
from scenarios.questions.policies_compared import variants as of_policies
from scenarios.questions.replications import Wanted
from streamtwin.answers.registry import ANSWERS
from streamtwin.cli import app as cli
from streamtwin.notebook.questions import whatif
from streamtwin.schemas.registry import DOCUMENTS, schema_of
from tests.commands import answer, in_a_shell, refused
from tests.scenarios.questions.jobs import queue
from twin.events import SlowDown
from twin.simulation import simulate

SILENT = Lines(lambda _text: None)
JOB = queue(horizon_s=2, warmup_s=0.5)


def run() -> Any:
    return simulate(JOB.with_events(SlowDown(at_s=1, host="big", factor=2))).to_dict()


def silent_run() -> Any:
    return simulate(queue(rate_per_s=1e-3, horizon_s=2, warmup_s=0)).to_dict()


def capacity() -> Any:
    asked = capacities.CapacityQuestion("max", knob("workload.arrivals.in.rate_per_s", "--find-max"),
                                condition("not backpressured", JOB), None, 0.2, 2)  # fmt: skip
    with Bench(Processes(1)) as bench:
        return capacities.capacity(JOB, asked, bench, 1, SILENT)


def sensitivity() -> Any:
    texts = ["workload.arrivals.in.rate_per_s=400..600", "cluster.hosts.big.cpu_percent=1000..1600"]
    with Bench(Processes(1)) as bench:
        model = sensitivities.Model(JOB, sensitivities.inputs(texts, JOB), "e2e_latency_s.mean", 1, 1)
        return sensitivities.sensitivity(model, sensitivities.SampleBudget(2, 8, 1), bench, SILENT)


def policies() -> Any:
    with Bench(Processes(1), of=judge(0.01)) as bench:
        return compared(bench, of_policies(JOB, ["none,ds2"]), 0.01, Wanted(2), 1, SILENT)


def dry_run() -> Any:
    change = planned(JOB, ChangeOptions(fail=["big"], recover_after_s=5))
    with Bench(Processes(1), of=dry_runs.look(change.at_s)) as bench:
        return dry_runs.dry_run(bench, JOB, change, 2, 1, SILENT)


MADE = {
    "run": run,
    "whatif": lambda: whatif(JOB, {"replicas of work": [1, 2]}, replications=2).result,
    "compare-policies": policies,
    "capacity": capacity,
    "sensitivity": sensitivity,
    "dry-run": dry_run,
}


@pytest.mark.parametrize("command", MADE)
def test_documents_are_as_their_schema_says(command):
    kind, made = DOCUMENTS[command], document(MADE[command]())
    check(kind, made)
    with pytest.raises(ValidationError, match=r"(?i)forbidden|unexpected keyword"):
        check(kind, {**made, "more": 1})
    for key in set(made) & set(schema_of(command)["required"]):
        with pytest.raises(ValidationError, match=r"(?i)required|missing"):
            check(kind, {name: value for name, value in made.items() if name != key})


@pytest.mark.parametrize("command", sorted(set(MADE) & set(ANSWERS)))
def test_an_answer_that_is_read_again_is_told_as_it_was(command):
    result, (kind, told) = MADE[command](), ANSWERS[command]
    again = read(kind, json.dumps(document(result)))
    assert document(again) == document(result)
    first, second = told(result), told(again)
    assert (first.heading, first.sentences, first.notes) == (second.heading, second.sentences, second.notes)
    assert [*map(str, first.tables)] == [*map(str, second.tables)]
    assert plain(first.rows) == plain(second.rows)
    assert first.figure().axes


def test_a_run_without_results_has_no_latencies():
    check(DOCUMENTS["run"], silent_run())


@pytest.mark.parametrize("command", DOCUMENTS)
def test_every_schema_describes_a_closed_object(command):
    schema = schema_of(command)
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False or command == "reproduce"
    assert json.loads(json.dumps(schema)) == schema


def test_the_command_prints_them():
    assert answer("schema", "run") == schema_of("run")
    assert "did you mean 'whatif'" in refused("schema", "whatiff")


def commands() -> list[str]:
    """As the command line has them, those of `import` by two words."""
    found = typer.main.get_command(cli.app).commands
    return [*(set(found) - {"import"}), *(f"import {each}" for each in found["import"].commands)]


def test_every_command_has_a_schema_and_nothing_else_has():
    assert set(DOCUMENTS) == set(commands()) - {"schema"}


TINY = {
    "list": (),
    "version": (),
    "show": ("smart-grid",),
    "schema": ("import", "flink"),
    "run": ("smart-grid", "--horizon", 11),
    "export": ("smart-grid", "--set", "run.horizon_s=11", "--out", "trace.json"),
    "report": ("smart-grid", "--set", "run.horizon_s=11"),
    "optimize": ("smart-grid", "--optimizer", "local-search", "--budget", 20),
    "validate": ("smart-grid", "--optimizers", "as-given", "--replications", 1, "--references", 0, "--set",
                 "run.horizon_s=11"),
    "benchmark": ("--families", "edge-linear", "--most", 1, "--optimizers", "as-given", "--cost-model", "rates",
                  "--replications", 1, "--references", 0),
    "profile": ("edge-filter", "--samples", 50),
    "reproduce": (),
}  # fmt: skip
"""The others are too slow for this, or need files, and are checked where they are tested."""


@pytest.mark.parametrize("command", TINY)
def test_commands_print_what_their_schema_says(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    printed = answer(command, *TINY[command])
    if command != "schema":
        check(DOCUMENTS[command], printed)


@pytest.mark.parametrize(
    ("words", "offered"),
    [("twin wha", {"whatif"}), ("twin run smart-grid-", {"smart-grid-global", "smart-grid-local"}),
     ("twin report --pl", {"--plan"}), ("twin capacity x --mas", {"--master"})],
)  # fmt: skip
def test_the_shell_is_offered_what_there_is(words, offered):
    asked = {"_TWIN_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    assert set(in_a_shell(**asked).stdout.split()) == offered
