"""Writes a result as files, whole or not at all: README.md, a JSON file a table, a PNG a figure, and the manifest."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from papers.interface import Experiment, ExperimentResult, Table
from papers.workspace import Workspace
from scenarios.files.documents import document
from scenarios.files.pictures import png
from scenarios.files.traces import check_free
from streamtwin.tables.tables import cell
from twin.atomic import new_folder
from twin.errors import BadInput
from twin.nesting import parse_json
from twin.version import VERSION

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
