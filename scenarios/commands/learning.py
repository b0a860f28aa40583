"""`twin train` and `twin evaluate`: from training rows to a cost model, and how good it is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from scenarios.commands.terminal import AsJson, Quiet, Seed, Terminal

DatasetFolder = Annotated[Path, typer.Argument(metavar="DATASET", help="A folder that `twin dataset` wrote.")]


def register(app: typer.Typer) -> None:
    """Adds the commands of this file."""
    app.command("train", rich_help_panel="Cost model")(train)
    app.command("evaluate", rich_help_panel="Cost model")(evaluate)


def train(
    dataset: DatasetFolder,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="New folder of the model.")],
    metrics: Annotated[
        str | None, typer.Option("--metrics", metavar="A,B,...", help="Which metrics. Default: all five.")
    ] = None,
    members: Annotated[int, typer.Option("--members", min=1, max=100, help="Networks in the ensemble.")] = 3,
    epochs: Annotated[
        int | None, typer.Option("--epochs", min=1, help="Passes over the rows. Default: by their number.")
    ] = None,
    seed: Seed = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Trains an ensemble of graph neural networks on simulated runs.

    Examples: `twin train dataset model` · `twin train dataset model --members 1 --epochs 20`
    """
    terminal = Terminal(as_json=as_json, quiet=quiet)
    from scenarios.traces import check_free

    check_free(out)
    from models import dataset as datasets
    from models.pipeline import train as train_ensembles
    from models.settings import TrainingSettings
    from scenarios.learning import rows_of, steps, write_model
    from twin.metrics import METRICS

    with terminal.progress("rows encoded") as report:
        rows = rows_of(dataset, report)
    parts = datasets.split(rows, seed)
    terminal.stage(f"training on {len(parts.train)} of {len(rows)} rows")
    settings = TrainingSettings(members=members, epochs=epochs)
    wanted = METRICS if metrics is None else [name.strip() for name in metrics.split(",")]
    with terminal.progress("steps at most; training stops early") as report:
        ensembles = train_ensembles(rows, parts, settings, seed, wanted, progress=steps(members, report))
    write_model(ensembles, out)
    losses = [min(point[2] for point in each["curve"]) for one in ensembles for each in one.manifest["members"]]
    sizes = {name: len(part) for name, part in parts._asdict().items()}
    document: dict[str, Any] = {"model": out, "metrics": list(wanted), "rows": sizes, "validation_losses": losses}
    words = ", ".join(f"{loss:.3f}" for loss in losses)
    terminal.result(document, f"model of {len(losses)} networks in {out}; best validation losses {words}")


def evaluate(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A folder that `twin train` wrote.")],
    dataset: DatasetFolder,
    every_row: Annotated[bool, typer.Option("--all", help="Every row: for a dataset it was not trained on.")] = False,
    seed: Seed = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Predicted against simulated on held-out runs: q-errors and accuracy, beside a baseline and the limit.

    Examples: `twin evaluate model dataset` · `twin evaluate model other-dataset --all`
    """
    from models import prediction
    from scenarios import learning, tables

    terminal = Terminal(as_json=as_json, quiet=quiet)
    loaded = prediction.load(model)
    with terminal.progress("rows encoded") as report:
        rows = learning.rows_of(dataset, report)
    terminal.stage("predicting, and training the baseline")
    found = learning.evaluate(loaded, rows, every_row=every_row, seed=seed)
    columns = {
        "metric": "metric",
        "model": "model",
        "rows": "runs",
        "q50": "q-error median",
        "q95": "q-error 95 %",
        "accuracy": "balanced accuracy",
    }
    title = f"predicted against simulated, {found.part} rows"
    terminal.result(found.to_dict(), tables.of_rows(title, columns, (row._asdict() for row in found.rows)))
