"""Tests that the parts of every experiment fit each other, and that runner and drawers follow them."""

from __future__ import annotations

import runpy
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from papers.interface import CaseTable, DerivedTable, Experiment, bars, grid, headings, items, lines, shape
from papers.registry import EXPERIMENTS
from papers.running import printed_for, run
from papers.workspace import SCALES, Workspace
from tests.papers.conftest import SEED, silent

ROOT = Path(__file__).resolve().parents[2]
PRINTED = [
    (name, table)
    for name, experiment in EXPERIMENTS.items()
    for table, spec in experiment.tables.items()
    if isinstance(spec, CaseTable) and spec.published
]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_is_whole(name: str) -> None:
    experiment = EXPERIMENTS[name]
    first, *_ = experiment.tables.values()
    assert isinstance(first, CaseTable) or isinstance(experiment.tables[first.of], CaseTable)
    assert sum(getattr(spec, "shapes", None) is not None for spec in experiment.tables.values()) <= 1
    assert callable(experiment.notes) or experiment.notes.lstrip()[:2] in ("", "- ")
    for spec in experiment.tables.values():
        if isinstance(spec, DerivedTable):
            assert isinstance(experiment.tables[spec.of], CaseTable)
    for sizes in SCALES.values():
        assert all(recipe.name and recipe.command for recipe in experiment.recipes(sizes, SEED))


@pytest.mark.parametrize(("name", "table"), PRINTED)
@pytest.mark.parametrize("scale", SCALES)
def test_what_the_paper_printed_is_of_a_case_and_in_a_column(name: str, table: str, scale: str, tmp_path: Path) -> None:
    """Published cells belong to a case and a column, for cases that are told apart by arguments of the measure."""
    spec = EXPERIMENTS[name].tables[table]
    workspace = Workspace(tmp_path, SCALES[scale], SEED, silent())
    columns = headings(spec.columns if isinstance(spec.columns, str) else spec.columns(workspace))
    for key, cells in spec.published.items():
        assert len(spec.by) == 1 or len(key) == len(spec.by)
        assert set(cells if isinstance(cells, Mapping) else {"paper"}) <= set(columns)
    cases = spec.cases(workspace) if callable(spec.cases) else spec.cases
    if all(set(spec.by) <= set(case) for case in cases):
        printed = [printed_for(spec, case) for case in cases]
        assert len([cells for cells in printed if cells]) >= len(spec.published)


def test_a_grid_changes_its_last_choice_fastest() -> None:
    assert grid(a="xy", b=(1, 2)) == ({"a": "x", "b": 1}, {"a": "x", "b": 2}, {"a": "y", "b": 1}, {"a": "y", "b": 2})


def test_columns_and_notes_are_read_from_texts() -> None:
    assert headings("way | ns: time (ns) |\n  ratio: ideal: 8 x one | what:") == {
        "way": "way",
        "ns": "time (ns)",
        "ratio": "ideal: 8 x one",
        "what": "",
    }
    assert items("\n- One - of\n  two lines.\n- Two.\n") == ["One - of two lines.", "Two."]
    assert items("") == []


def test_rows_are_cases_with_what_was_measured_and_printed(tmp_path: Path) -> None:
    def measure(workspace: Workspace, server: str, load: int) -> list[dict[str, Any]]:
        return [{"planner": name, "kps": workspace.seed * load * factor} for name, factor in (("a", 1), ("b", 2))]

    experiment = Experiment(
        name="paper.table0",
        source="Paper, Table 0",
        summary="what is shown",
        tables={
            "most": DerivedTable(
                title="Most", columns="kps: K/s", of="speeds", rows=lambda rows: [max(rows, key=lambda r: r["kps"])]
            ),
            "speeds": CaseTable(
                title=lambda workspace: f"{workspace.sizes.members} runs",
                columns="server | planner: by | kps: K/s | paper | error: paper: off by",
                cases=grid(server="A", load=(1, 3)),
                measure=measure,
                published={("A", "a"): 7, ("A", "b"): {"error": 0.1}},
                by=("server", "planner"),
                shapes=lambda rows: [shape("more is faster", "yes", "yes", rows[0]["kps"] < rows[2]["kps"])],
            ),
        },
        figures={"speeds": lambda tables: SimpleNamespace(rows=tables["speeds"])},
        notes=lambda rows: f"- A note.\n- At most {rows[0]['kps']}.",
    )
    result = run(experiment, Workspace(tmp_path, SCALES["small"], 2, silent()))
    assert list(result.tables) == ["most", "speeds", "against"]
    rows = result.tables["speeds"].rows
    assert [(row["load"], row["kps"]) for row in rows] == [(1, 2), (1, 4), (3, 6), (3, 12)]
    assert [(row["paper"], row["error"]) for row in rows[:2]] == [(7, None), (None, 0.1)]
    assert result.tables["most"].rows == (rows[3],)
    assert result.tables["speeds"].title == "1 runs" and result.notes == ("A note.", "At most 12.")
    assert result.tables["against"].rows[0]["verdict"] == "agrees"
    assert result.figures["speeds"]().rows == rows


def test_lines_are_columns_over_a_column_or_lists_over_their_numbers() -> None:
    rows = [{"way": "a", "x": 2, "low": 1, "high": 3, "by_round": [5, 6]}, {"way": "b", "x": 1, "low": 2, "high": 4}]
    drawn = lines(
        "x", "y", x=lambda row: 10 * row["x"], y={"low": "least", "high": "most"}, series="{quantity} {way}", factor=2
    )({"t": rows})
    points = {line.get_label(): list(zip(*line.get_data(), strict=True)) for line in drawn.axes[0].lines}
    assert points == {"least a": [(20, 2)], "most a": [(20, 6)], "least b": [(10, 4)], "most b": [(10, 8)]}
    numbered = lines("round", "y", y="by_round", series="way", only={"way": ["a"]}, first=0)({"t": rows})
    assert [list(line.get_ydata()) for line in numbered.axes[0].lines] == [[5, 6]]
    assert [list(line.get_xdata()) for line in numbered.axes[0].lines] == [[0, 1]]


@pytest.mark.parametrize("factors", [False, True])
def test_bars_reach_their_values(factors: bool) -> None:
    rows = [{"who": "a", "fast": 2.0, "slow": 3.0}, {"who": "b", "fast": 4.0, "slow": 5.0}]
    drawn = bars("y", group="group {who}", value={"fast": "f", "slow": "s"}, factors=factors)({"t": rows})
    axes = drawn.axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["group a", "group b"]
    assert sorted(bar.get_y() + bar.get_height() for bar in axes.patches) == pytest.approx([2, 3, 4, 5])


def test_the_experiment_of_the_docs_works(tmp_path: Path) -> None:
    guide = runpy.run_path(str(ROOT / "docs" / "examples" / "two_solvers.py"))
    result = run(guide["TWO_SOLVERS"], Workspace(tmp_path, SCALES["small"], SEED, silent()))
    rows = result.tables["distance"].rows
    assert [row["paper"] for row in rows] == ["never the lower one", None] * 2
    assert all(search["distance"] <= flux["distance"] for flux, search in zip(rows[::2], rows[1::2], strict=True))
    assert len(result.figures["distance"]().axes[0].lines) == 2
