"""`twin export`: a run for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from streamtwin.cli.given import Events, Set, Target, run_of
from streamtwin.cli.terminal import ScenarioSeed, Terminal


def export(
    target: Target,
    terminal: Terminal,
    form: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="perfetto|csv|parquet|metrics",
            help="A trace for a viewer, tables, or samples of metrics.",
        ),
    ] = "perfetto",
    out: Annotated[
        Path | None, typer.Option(metavar="PATH", help="A new file (perfetto) or folder. Default: by name.")
    ] = None,
    set_: Set = None,
    event: Events = None,
    seed: ScenarioSeed = None,
) -> None:
    """Writes a run for other programs: a trace for Perfetto's viewer, tables as CSV or Parquet, or samples of metrics.

    Examples: `twin export failover` · `twin run failover --out trace`, then `twin export trace --format csv` ·
    `twin export rush-hour --format metrics --out metrics`, then `twin shadow rush-hour metrics --once`
    """
    terminal.stage(f"export: reading {target}")
    from scenarios.files.traces import check_free
    from streamtwin.export import files

    files.check_format(form)
    place = out if out is not None else files.default_place(Path(target).stem, form)
    check_free(place)
    files.export(run_of(target, set_, seed=seed, events=event), form, place)
    opened = "; open it at ui.perfetto.dev or in chrome://tracing" if form == "perfetto" else ""
    terminal.result({"format": form, "path": place}, f"written to {place}{opened}")
