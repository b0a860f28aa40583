"""Command `twin reproduce`: published experiments, our results beside the paper's."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from streamtwin.cli.corpus import Master
from streamtwin.cli.interruption import kept
from streamtwin.cli.terminal import Terminal
from streamtwin.house import PAPERS
from twin.errors import BadInput


def reproduce(
    terminal: Terminal,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[EXPERIMENT]...", help="Names, or `all`; without any: the list.")
    ] = None,
    scale: Annotated[
        Literal["small", "medium", "paper"], typer.Option(help="Minutes, hours, or the paper's size: a day.")
    ] = "small",
    out: Annotated[Path, typer.Option(metavar="DIR", help="Results, a folder each.")] = Path("results"),
    work: Annotated[
        Path, typer.Option(metavar="DIR", help="Corpora and models, which later commands use again.")
    ] = Path("reproduce"),
    master: Master = "local[*]",
    seed: Annotated[int, typer.Option(min=0, help="Seed of corpora, splits and networks.")] = 1,
) -> None:
    """Runs published experiments: tables and figures with ours beside the paper's.

    Examples: `twin reproduce` · `twin reproduce costream.table3` · `twin reproduce all --scale paper --out results`
    """
    if not PAPERS.is_dir():
        raise BadInput(
            f"{PAPERS} is not there: published experiments are not installed; run this command from a checkout of "
            "the repository"
        )
    from papers.registry import chosen
    from papers.running import run
    from papers.simulating import fan_out
    from papers.sizes import SCALES
    from papers.workspace import Workspace
    from papers.writing import check_replaceable, manifest_of, write
    from streamtwin import catalogue
    from streamtwin.tables import tables

    if not names:
        known = catalogue.experiments()
        terminal.result({"experiments": known}, tables.glossary("experiments", known))
        return
    experiments = chosen(names)
    for experiment in experiments:
        check_replaceable(out / experiment.name)
    sizes = SCALES[scale]
    workspace = Workspace(work, sizes, seed, terminal, fan_out(master))
    document: dict[str, Any] = {}
    shown: list[Any] = []
    with kept(f"finished runs and networks in {work}"):
        workspace.prepare([recipe for experiment in experiments for recipe in experiment.recipes(sizes, seed)])
        for experiment in experiments:
            terminal.stage(f"{experiment.name}: {experiment.summary}")
            workspace.used.clear()
            result = run(experiment, workspace)
            write(experiment, result, out / experiment.name, manifest_of(experiment, workspace, scale))
            filled = result.tables
            document[experiment.name] = {name: [dict(row) for row in table.rows] for name, table in filled.items()}
            shown += [tables.of_rows(table.title, table.columns, table.rows) for table in filled.values()]
            shown += [*result.notes, f"written to {out / experiment.name}"]
    terminal.result(document, *shown)
