"""`twin import` turns real runs of a stream engine into scenarios; `twin validate-runs` checks the twin on them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from streamtwin.cli.terminal import AsJson, Quiet, Seed, Terminal

imports = typer.Typer(no_args_is_help=True, help="Turns what another tool wrote into a scenario file.")


@imports.command("run-graph")
def run_graph(
    source: Annotated[
        Path, typer.Argument(metavar="FILE", help="A .graph file of a real Flink run (ZeroTune's form).")
    ],
    out: Annotated[Path | None, typer.Option("--out", metavar="YAML", help="New file. Default: stdout.")] = None,
    _seed: Seed = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """A published graph of a real Flink run as a scenario, with the rates that were measured beside it.

    Example: `twin import run-graph run.graph --out run.yaml`, then `twin run run.yaml`
    """
    from scenarios.files import scenario_file
    from scenarios.files.traces import check_free, write_text
    from streamtwin.connect.importers.run_graph import read_run_graph

    terminal = Terminal(as_json=as_json, quiet=quiet)
    if out is not None:
        check_free(out)
    imported = read_run_graph(source)
    for note in imported.notes:
        terminal.note(f"note: {note}")
    text = scenario_file.dump(imported.scenario)
    if out is None and not as_json:
        terminal.text(text)
        return
    if out is not None:
        write_text(text, out)
    terminal.result(imported, f"scenario {imported.scenario.name!r} in {out}; run it with: twin run {out}")


def validate_runs(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of .graph files of real runs.")],
    horizon: Annotated[float | None, typer.Option("--horizon", metavar="S", help="Simulated seconds a run.")] = None,
    seed: Seed = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Imports and simulates every run graph below DIR, and compares predicted with measured rates of each operator.

    Example: `twin validate-runs runs --json`
    """
    from streamtwin.connect.importers.run_graph import SETTINGS
    from streamtwin.connect.importers.validate_runs import validate
    from streamtwin.tables import tables
    from twin.scenario import RunSettings
    from twin.simulation import simulate
    from twin.spec import parse

    terminal = Terminal(as_json=as_json, quiet=quiet)
    changes = {"seed": seed} | ({} if horizon is None else {"horizon_s": horizon})
    settings = parse(RunSettings, {**SETTINGS.model_dump(mode="json"), **changes}, "--horizon")
    terminal.stage(f"importing and simulating the runs in {folder}")
    answer = validate(folder, settings, simulate)
    for name, reason in answer.failed.items():
        terminal.note(f"left out: {name}: {reason}")
    shown = (
        ("relative errors beside what needs no simulation", answer.beside),
        ("relative errors by quantity", answer.by_quantity),
        ("by query family", answer.by_family),
    )
    groups = [tables.of_errors(title, errors) for title, errors in shown]
    median = f"{answer.median_relative_error:.1%}"
    words = f"{answer.runs} runs, {len(answer.failed)} left out; median relative error {median}"
    terminal.result(answer, *groups, words)
