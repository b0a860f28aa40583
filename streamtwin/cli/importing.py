"""Commands `twin import run-graph | metrics`, for real runs of a stream engine, and `twin validate-runs`, which checks
the twin on them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from streamtwin.cli.given import NewYaml, ScenarioName, Set, scenario_of
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


def metrics(
    scenario: ScenarioName,
    source: Annotated[
        Path, typer.Argument(metavar="FILE", help="Samples (CSV, Parquet): time, metric, value, and labels.")
    ],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="New folder of training rows.")],
    terminal: Terminal,
    points: Points = None,
    set_: Set = None,
) -> None:
    """Metrics of measured runs of one scenario, as a time-series database exports them: a training row a run.

    Labels: `run`, `operator` (or Flink's `task_name`), `subtask_index`, `host`; a column with dots sets a value of the
    scenario in that run.

    Example: `twin import metrics job.yaml prometheus.csv rows --points points.csv`, then `twin evaluate MODEL rows`
    """
    from scenarios.calibration.measured_rows import check_subtasks, training_row, write_rows
    from scenarios.calibration.point import check
    from scenarios.calibration.point_files import points_of, with_point
    from scenarios.files.traces import check_free
    from streamtwin.connect.importers.prometheus import read_metrics
    from twin.atomic import write_bytes

    check_free(out)
    loaded, runs = scenario_of(scenario, set_), read_metrics(source)
    rows = []
    table = ""
    for index, run in enumerate(runs):
        (point,) = points_of(run.rows, loaded, f"{source}, run {run.name}")
        check([point])
        for problem in check_subtasks(point, run.subtasks):
            terminal.note(f"note: run {run.name}: {problem}; a column plan.placement.NAME gives the plan of a run")
        rows.append(training_row(point, index, max(run.seconds, 1e-3)))
        if run.skipped:
            terminal.note(f"note: run {run.name}: metrics not read: {', '.join(run.skipped)}")
        if run.unmeasured:
            terminal.note(f"note: run {run.name}: samples without a value are left out, of {', '.join(run.unmeasured)}")
        if points is not None:
            readings = [{key: value for key, value in row.items() if key != "point"} for row in run.rows]
            table = with_point(points, run.name, readings, table)
    write_rows(rows, out)
    if points is not None:
        write_bytes(points, table.encode())
    terminal.result({"rows": len(rows)}, f"{len(rows)} measured training rows in {out}")
