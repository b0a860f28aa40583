"""Runs an experiment case by case, and writes its result as files, whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from papers import interface
from papers.interface import CaseTable, DerivedTable, Experiment, ExperimentResult, Row, Rows, Table, headings, items
from papers.workspace import Workspace
from scenarios.executing import Processes, every_tenth
from scenarios.files.documents import document
from scenarios.files.run_folder import check_free, png
from streamtwin.tables.tables import cell
from twin import VERSION
from twin.errors import BadInput
from twin.files import new_folder, parse_json

# files of a result ---------------------------------------------------------------------------------------------------
# Writes a result as files, whole or not at all: README.md, a JSON file a table, a PNG a figure, and the manifest.


MANIFEST = "manifest.json"
MADE_BY = "twin reproduce"
_LABEL = (
    "Every figure of ours is of simulated runs (a *simulated corpus*), none of a real cluster. What is headed *paper* "
    "is published, of its authors' systems and machines."
)


def manifest_of(experiment: Experiment, workspace: Workspace, scale: str) -> dict[str, Any]:
    """Everything that decided a result, and the command that repeats it; independent of time and place."""
    recipes = {
        name: {**recipe.plan()[1].manifest(), "command": recipe.command} for name, recipe in workspace.used.items()
    }
    return {
        "experiment": experiment.name,
        "source": experiment.source,
        "version": VERSION,
        "scale": scale,
        "sizes": asdict(workspace.sizes),
        "seed": workspace.seed,
        "command": f"twin reproduce {experiment.name} --scale {scale} --seed {workspace.seed}",
        "corpora": dict(sorted(recipes.items())),
    }


def check_replaceable(folder: Path) -> None:
    """Raises BadInput if a result cannot be written to a folder; called before any work is done."""
    if not folder.exists():
        check_free(folder)
    elif not _is_ours(folder):
        raise BadInput(f"{folder} was not made by '{MADE_BY}', so it is left alone; name another folder with --out")


def write(experiment: Experiment, result: ExperimentResult, folder: Path, manifest: Mapping[str, Any]) -> None:
    """Writes the folder of one experiment; replaces an earlier result. Raises BadInput as `check_replaceable`."""
    check_replaceable(folder)
    try:
        with new_folder(folder, replacing=True) as aside:
            for name, table in result.tables.items():
                body = {"title": table.title, "columns": dict(table.columns), "rows": [dict(row) for row in table.rows]}
                (aside / f"{name}.json").write_text(_json(body), encoding="utf-8")
            for name, draw in result.figures.items():
                (aside / f"{name}.png").write_bytes(png(draw()))
            (aside / "README.md").write_text(page(experiment, result, manifest), encoding="utf-8")
            (aside / MANIFEST).write_text(_json({"made_by": MADE_BY, **manifest}), encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{folder} cannot be written: {error.strerror}; name another folder with --out") from None


def page(experiment: Experiment, result: ExperimentResult, manifest: Mapping[str, Any]) -> str:
    """Text of a result's page, in Markdown."""
    parts = [
        f"# {experiment.name}",
        f"{_sentence(experiment.summary)} Source: {experiment.source}.",
        result.about or _LABEL,
    ]
    parts += [f"Made by version {manifest['version']}:", f"```sh\n{manifest['command']}\n```"]
    parts += [markdown(table) for table in result.tables.values()]
    parts += [f"![{name}]({name}.png)" for name in result.figures]
    parts += ["\n".join(f"- {note}" for note in result.notes)] if result.notes else []
    return "\n\n".join(parts) + "\n"


def markdown(table: Table) -> str:
    """Title and rows as a Markdown table."""
    lines = [" | ".join(table.columns.values()), " | ".join("---" for _ in table.columns)]
    lines += [" | ".join(cell(row.get(key)).replace("|", "\\|") for key in table.columns) for row in table.rows]
    return "\n".join([f"**{table.title}**", "", *(f"| {line} |" for line in lines)])


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _json(body: Mapping[str, Any]) -> str:
    return json.dumps(document(body), indent=2, allow_nan=False) + "\n"


def _is_ours(folder: Path) -> bool:
    try:
        found = parse_json((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and found.get("made_by") == MADE_BY


# cases in several processes ------------------------------------------------------------------------------------------
# Measures cases that are kept one by one, in several processes where there are many.


def kept(
    workspace: Workspace,
    group: str,
    function: Callable[..., Any],
    cases: Rows,
    given: Callable[[], Mapping[str, Any]] = dict,
    decided: Mapping[str, Any] | None = None,
) -> list[Any]:
    """Values of `function(**case, **given(), seed=...)` for each case, in order, computed now or earlier.

    given: arguments that are the same for all cases, asked for once, if a case is missing. decided: those that decide
    the result, as JSON values, for the key in `Workspace.cached`. All must be picklable; interrupted, finished cases
    are kept.
    """
    keys = [{**(decided or {}), **case} for case in cases]
    missing = [number for number, key in enumerate(keys) if not workspace.has(group, key)]
    if missing:
        work = partial(_measured_apart, function, {**given(), "seed": workspace.seed})
        with workspace.audience.progress(f"cases of {group}") as report, Processes() as processes:
            done = len(cases) - len(missing)

            def keep(position: int, value: Any) -> None:
                nonlocal done
                workspace.cached(group, keys[missing[position]], lambda: value)
                done += 1
                report(done, len(cases))

            processes.each(work, [cases[number] for number in missing], keep)
    return [workspace.cached(group, key, lambda: None) for key in keys]


def _measured_apart(function: Callable[..., Any], given: Mapping[str, Any], case: Row) -> Any:
    return function(**case, **given)


# running -------------------------------------------------------------------------------------------------------------
# Runs an experiment: case by case, then what is derived from rows, shapes, figures and notes.


def run(experiment: Experiment, workspace: Workspace) -> ExperimentResult:
    """Measures every case, or finds earlier results; the workspace keeps these, and has the sizes and the seed."""
    filled: dict[str, Table] = {}
    for name, spec in experiment.tables.items():
        if isinstance(spec, CaseTable):
            columns = headings(_of(spec.columns, workspace))
            rows = tuple(_complete(spec, columns, _measured(experiment, spec, workspace)))
            filled[name] = Table(_title(spec, workspace), columns, rows)
    tables: dict[str, Table] = {}
    for name, spec in experiment.tables.items():
        if isinstance(spec, DerivedTable):
            tables[name] = Table(spec.title, headings(spec.columns), tuple(spec.rows(filled[spec.of].rows)))
            continue
        tables[name] = filled[name]
        if spec.shapes is not None:
            tables["against"] = interface.against(spec.shapes(filled[name].rows), simulated=not experiment.about)
    by_table = {name: table.rows for name, table in tables.items()}
    first = next(iter(by_table.values()))
    notes = tuple(items(experiment.notes if isinstance(experiment.notes, str) else experiment.notes(first)))
    figures = {name: partial(draw, by_table) for name, draw in experiment.figures.items()}
    return ExperimentResult({name: _shown(table) for name, table in tables.items()}, figures, notes, experiment.about)


def _title(spec: CaseTable, workspace: Workspace) -> str:
    given = spec.title
    return given.format_map(asdict(workspace.sizes)) if isinstance(given, str) else given(workspace)


def _shown(table: Table) -> Table:
    """Table without the values that figures alone need."""
    rows = ({key: value for key, value in row.items() if not key.startswith("_")} for row in table.rows)
    return replace(table, rows=tuple(rows))


def _measured(experiment: Experiment, spec: CaseTable, workspace: Workspace) -> Iterator[Row]:
    cases = _of(spec.cases, workspace)
    report = every_tenth(
        lambda done, total, _words="": workspace.audience.stage(f"    {done} of {total} cases of {experiment.name}")
    )
    for done, case in enumerate(cases, start=1):
        found = spec.measure(workspace, **case)
        for row in [found] if isinstance(found, Mapping) else found:
            yield {**case, **row}
        if len(cases) > 1:
            report(done, len(cases))


def _complete(spec: CaseTable, columns: Mapping[str, str], rows: Iterator[Row]) -> Iterator[Row]:
    """Rows with what the paper printed for each, and None where a row has no value for a column."""
    for row in rows:
        printed = printed_for(spec, row)
        yield {**dict.fromkeys(columns), **row, **printed}


def printed_for(spec: CaseTable, row: Row) -> Mapping[str, Any]:
    """Cells that the paper printed for the case of a row; none if it printed nothing."""
    key = tuple(row.get(column) for column in spec.by)
    cells = spec.published.get(key[0] if len(key) == 1 else key, {}) if key else {}
    return cells if isinstance(cells, Mapping) else {"paper": cells}


def _of(given: Any, workspace: Workspace) -> Any:
    """Value of a part of an experiment, which is a function of the workspace where it depends on the scale."""
    return given(workspace) if callable(given) else given
