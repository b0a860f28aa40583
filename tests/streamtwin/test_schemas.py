"""Output of commands with --json agrees with `twin schema COMMAND`: no key more, none less, none of another type."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError

import streamtwin as st
from scenarios.files.documents import document, read
from streamtwin.questions import registry
from streamtwin.schemas import DOCUMENTS, schema_of
from tests.commands import answer, in_a_shell, refused
from tests.scenarios.questions.jobs import queue
from tests.schema_checks import check
from tests.streamtwin.test_cli import commands
from tests.streamtwin.test_notebook import QUESTIONS
from twin.events import SlowDown
from twin.simulation import simulate

JOB = queue(horizon_s=2, warmup_s=0.5)
MADE: dict[str, Callable[[], Any]] = {
    **{command: lambda ask=ask: ask(JOB).result for command, (ask, _) in QUESTIONS.items()},
    "run": lambda: simulate(JOB.with_events(SlowDown(at_s=1, host="big", factor=2))).to_dict(),
    "dry-run": lambda: st.dry_run(JOB, fail=["big"], recover_after_s=5, replications=2).result,
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


@pytest.mark.parametrize("command", sorted(set(MADE) & set(registry.QUESTIONS)))
def test_an_answer_that_is_read_again_is_told_as_it_was(command):
    result, kind = MADE[command](), registry.QUESTIONS[command].answer()
    told = registry.QUESTIONS[command].told()
    again = read(kind, json.dumps(document(result)))
    assert document(again) == document(result)
    first, second = told(result), told(again)
    assert (first.heading, first.sentences, first.notes) == (second.heading, second.sentences, second.notes)
    assert [*map(str, first.tables)] == [*map(str, second.tables)]
    assert document(first.rows) == document(second.rows)
    assert first.figure().axes


def test_a_run_without_results_has_no_latencies():
    check(DOCUMENTS["run"], simulate(queue(rate_per_s=1e-3, horizon_s=2, warmup_s=0)).to_dict())


def test_the_schema_of_a_run_says_which_state_is_meant():
    assert "state_bytes: the largest state at the end of a period" in json.dumps(schema_of("run"))


@pytest.mark.parametrize("command", DOCUMENTS)
def test_every_schema_describes_a_closed_object(command):
    schema = schema_of(command)
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False or command == "reproduce"
    assert json.loads(json.dumps(schema)) == schema


def test_the_command_prints_them():
    assert answer("schema", "run") == schema_of("run")
    assert "did you mean 'whatif'" in refused("schema", "whatiff")


def test_every_command_has_a_schema_and_nothing_else_has():
    assert set(DOCUMENTS) == {name for name, _ in commands()} - {"schema"}


@pytest.mark.parametrize("words", [("version",), ("show", "smart-grid")])
def test_commands_print_what_their_schema_says(words):
    """Commands print documents of their schemas; other tests check all other commands as they call them."""
    check(DOCUMENTS[words[0]], answer(*words))


@pytest.mark.parametrize(
    ("words", "offered"),
    [("twin wha", {"whatif"}), ("twin run smart-grid-", {"smart-grid-global", "smart-grid-local"}),
     ("twin report --pl", {"--plan"}), ("twin capacity x --mas", {"--master"})],
)  # fmt: skip
def test_the_shell_is_offered_what_there_is(words, offered):
    asked = {"_TWIN_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    assert set(in_a_shell(**asked).stdout.split()) == offered
