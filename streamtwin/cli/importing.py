"""`twin import` turns real runs of a stream engine into scenarios; `twin validate-runs` checks the twin on them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from streamtwin.cli.given import NewYaml
from streamtwin.cli.terminal import Seed, Terminal

Points = Annotated[
    Path | None, typer.Option("--points", metavar="CSV", help="Add the readings to a table for `twin calibrate`.")
]


def run_graph(
    source: Annotated[
        Path, typer.Argument(metavar="FILE", help="A .graph file of a real Flink run (ZeroTune's form).")
    ],
    terminal: Terminal,
    out: NewYaml = None,
    _seed: Seed = 0,
) -> None:
    """A published graph of a real Flink run as a scenario, with the rates that were measured beside it.

    Example: `twin import run-graph run.graph --out run.yaml`, then `twin run run.yaml`
    """
    from scenarios.files import scenario_file
    from scenarios.files.traces import check_free
    from streamtwin.connect.importers.run_graph import read_run_graph

    if out is not None:
        check_free(out)
    imported = read_run_graph(source)
    for note in imported.notes:
        terminal.note(f"note: {note}")
    words = f"scenario {imported.scenario.name!r} in {out}; run it with: twin run {out}"
    terminal.file(scenario_file.dump(imported.scenario), out, imported, words)


def validate_runs(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of .graph files of real runs.")],
    terminal: Terminal,
    horizon: Annotated[float | None, typer.Option(metavar="S", help="Simulated seconds a run.")] = None,
    seed: Seed = 0,
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
