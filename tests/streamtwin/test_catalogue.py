"""What `twin list` says is read off the files' text: it must be what importing them would say."""

from __future__ import annotations

import sys
from pathlib import Path

from optimizers.policies import POLICIES
from optimizers.policies import registry as policies
from optimizers.registry import ALIASES, OPTIMIZERS, WORDS
from papers.registry import EXPERIMENTS
from scenarios.spaces.registry import DRAWN, SPACES
from scenarios.suite.members import MEMBERS
from streamtwin import catalogue
from streamtwin.catalogue import assigned_calls, summary


def test_everything_that_can_be_named_is_listed_in_its_own_words() -> None:
    """An experiment is listed if its file says `X = Experiment(name="...", source="...", summary="...", ...)`."""
    assert catalogue.experiments() == {name: f"{each.summary} ({each.source})" for name, each in EXPERIMENTS.items()}
    assert set(catalogue.optimizers()) == set(OPTIMIZERS)
    assert set(catalogue.policies()) == set(POLICIES)
    assert set(catalogue.spaces()) == {*SPACES, *DRAWN}
    assert set(catalogue.families()) == set(MEMBERS)
    for name, optimizer in OPTIMIZERS.items():
        module = sys.modules[type(optimizer).__module__]
        same = f"; the same as {ALIASES[name]}" if name in ALIASES else ""
        assert catalogue.optimizers()[name] == WORDS.get(name, summary(module.__name__)) + same
        assert " ".join((module.__doc__ or "").split()).startswith(summary(module.__name__))


def test_lines_end_with_their_sentence_and_no_two_are_alike() -> None:
    assert catalogue.optimizers()["random-sockets"].endswith("Fig. 14 compares with")
    assert len(set(catalogue.optimizers().values())) == len(OPTIMIZERS)
    assert len({line.split(" (")[0] for line in catalogue.policies().values()}) == len(POLICIES)
    assert set(WORDS) <= set(OPTIMIZERS) and set(policies.WORDS) <= set(POLICIES)


def test_options_of_policies_are_listed_with_their_defaults() -> None:
    for name, spec in POLICIES.items():
        fields = {field: each.default for field, each in spec.model_fields.items() if field != "name"}
        assert all(f"{field}: {default}" in catalogue.policies()[name] for field, default in fields.items())


def test_an_experiment_by_position_is_read_too(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text('A = Experiment("mine.a", "nowhere", summary="what is first", run=f)\nB = Experiment(name=a())\n')
    expected = {"name": "mine.a", "source": "nowhere", "summary": "what is first"}
    assert list(assigned_calls(file, "Experiment", ("name", "source", "summary"))) == [expected]
