"""`twin import metrics`: exported metrics of real runs as training rows and as operating points."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from streamtwin.cli.given import ScenarioName, Set, scenario_of
from streamtwin.cli.importing import Points
from streamtwin.cli.terminal import Terminal


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
