"""`twin list` has as data what importing would give; `twin reproduce` finds what it lists."""

from __future__ import annotations

import json
from collections import Counter

from optimizers import policies as policies
from optimizers.policies import POLICIES
from optimizers.registry import OPTIMIZERS, WORDS
from papers import registry
from papers.interface import CaseTable, Experiment
from papers.registry import EXPERIMENTS
from scenarios.spaces.registry import DRAWN, SPACES
from scenarios.suite import MEMBERS
from streamtwin import catalogue
from streamtwin.catalogue import described
from tests.commands import refused, twin


def test_everything_that_can_be_named_is_listed_in_its_own_words() -> None:
    """The data is as all that it names describes itself; if not, `python -m streamtwin.catalogue` writes it anew."""
    listed = {
        "optimizers": list(catalogue.optimizers().items()),
        "policies": list(catalogue.policies().items()),
        "spaces": list(catalogue.spaces().items()),
        "families": list(catalogue.families().items()),
        "experiments": list(catalogue.experiments().items()),
        "kinds": list(catalogue.kinds().items()),
    }
    other = [name for name, lines in described().items() if list(lines.items()) != listed[name]]
    assert not other, f"{', '.join(other)} changed: give 'python -m streamtwin.catalogue', and commit what it writes"
    assert set(catalogue.optimizers()) == set(OPTIMIZERS) and set(catalogue.policies()) == set(POLICIES)
    assert set(catalogue.spaces()) == {*SPACES, *DRAWN} and set(catalogue.families()) == set(MEMBERS)


def alike(lines: dict[str, str]) -> list[str]:
    """Names whose lines others have, too: files that they share need a line for each in WORDS."""
    counts = Counter(lines.values())
    return [name for name, line in lines.items() if counts[line] > 1]


def test_lines_end_with_their_sentence_and_no_two_are_alike() -> None:
    assert catalogue.optimizers()["random-sockets"].endswith("Fig. 14 compares with")
    assert alike(catalogue.optimizers()) == []
    assert alike({name: line.split(" (")[0] for name, line in catalogue.policies().items()}) == []
    assert set(WORDS) <= set(OPTIMIZERS) and set(policies.WORDS) <= set(POLICIES)


def test_options_of_policies_are_listed_with_their_defaults() -> None:
    for name, spec in POLICIES.items():
        fields = {field: each.default for field, each in spec.model_fields.items() if field != "name"}
        assert all(f"{field}: {default}" in catalogue.policies()[name] for field, default in fields.items())


FAKE = Experiment(
    name="paper.one",
    source="Paper, Table 1",
    summary="one number",
    tables={
        "t": CaseTable(
            title="t",
            columns="x",
            measure=lambda workspace: [{"x": workspace.seed}, {"x": workspace.sizes.members}],
        )
    },
)


def test_without_a_name_it_lists_what_there_is():
    listed = twin("reproduce")
    assert listed.returncode == 0 and all(name in listed.stdout for name in EXPERIMENTS)


def test_an_unknown_name_is_refused_with_a_suggestion_and_a_foreign_folder_before_any_work(tmp_path):
    said = refused("reproduce", "costream.tabel3", "--out", tmp_path / "out")
    assert "unknown experiment 'costream.tabel3'; did you mean 'costream.table3'?" in said
    (tmp_path / "costream.table3").mkdir()
    assert "left alone" in refused("reproduce", "costream.table3", "--out", tmp_path, "--work", tmp_path / "work")
    assert [each.name for each in tmp_path.iterdir()] == ["costream.table3"]


def test_rows_are_printed_and_written(tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "EXPERIMENTS", {FAKE.name: FAKE})
    made = twin("reproduce", "paper.one", "--out", tmp_path / "out", "--work", tmp_path / "work", "--seed", 5)
    assert made.returncode == 0, made.stderr
    assert "written to" in made.stdout
    assert json.loads((tmp_path / "out" / "paper.one" / "t.json").read_text())["rows"] == [{"x": 5}, {"x": 1}]


def test_every_experiment_says_what_it_is():
    for name, each in EXPERIMENTS.items():
        assert name == each.name
        assert each.source == "a what-if of ours" or name.partition(".")[0] == each.source.partition(",")[0].lower()
        assert each.summary[0].islower() or each.summary[0].isdigit()
        assert not each.summary.endswith(".")
