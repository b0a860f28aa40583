"""Commands `twin train`, which makes a cost model of training rows, and `twin evaluate`, which measures its errors."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streamtwin.cli.interruption import kept
from streamtwin.cli.terminal import Seed, Terminal
from twin.errors import BadInput

if TYPE_CHECKING:
    from models.prediction import LearnedCostModel
    from scenarios.calibration.profile_file import UnderProfile

SHIPPED = "learned"
DatasetFolder = Annotated[Path, typer.Argument(metavar="DATASET", help="A folder that `twin dataset` wrote.")]
Profile = Annotated[
    Path | None,
    typer.Option("--profile", metavar="PROFILE", help="Read the rows with the constants that `twin calibrate` wrote."),
]
TrainingSeed = Annotated[
    int, typer.Option("--seed", min=0, help="Same seed and number of cores, same networks, to the byte.")
]


def train(
    dataset: DatasetFolder,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="New folder of the model.")],
    terminal: Terminal,
    metrics: Annotated[
        str | None, typer.Option(metavar="A,B,...", help="Metrics to predict. Default: all five.")
    ] = None,
    members: Annotated[int | None, typer.Option(min=1, max=100, help="Networks in the ensemble. Default: 3.")] = None,
    preset: Annotated[
        str | None, typer.Option(metavar="NAME", help="ours (default), or paper: Costream as published, 15 networks.")
    ] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Passes over the rows. Default: by their number.")] = None,
    start: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="MODEL", help="Fine-tune this model, or `learned`, the shipped; it stays as it is."
        ),
    ] = None,
    rehearse: Annotated[
        Path | None, typer.Option(metavar="OLD", help="With --from: the dataset of MODEL, so that it forgets less.")
    ] = None,
    profile: Profile = None,
    seed: TrainingSeed = 0,
) -> None:
    """Trains an ensemble of graph neural networks on simulated runs.

    Interrupted, it keeps the networks that are done; the same command goes on with the next one.

    Examples: `twin train dataset model` · `twin train dataset model --members 1 --epochs 20` ·
    `twin train dataset costream --preset paper` · `twin train chains better --from model --rehearse dataset` ·
    `twin train measured mine --from learned --profile engine.yaml`
    """
    from scenarios.files.traces import check_free

    check_free(out)
    if start is not None:
        if (metrics, members, preset) != (None, None, None):
            raise BadInput("--from keeps the kind of its model; leave --metrics, --members and --preset out")
        _fine_tune(dataset, out, start, rehearse, profile, epochs, seed, terminal)
        return
    if rehearse is not None:
        raise BadInput("--rehearse is for fine-tuning; name the model with --from")
    from models import dataset as datasets
    from models.pipeline import check_metrics
    from models.pipeline import train as train_ensembles
    from models.settings import preset as preset_of
    from scenarios.learning.fine_tuning import ModelTrained
    from scenarios.learning.learner import networks, rows_of, steps, under_way, write_model
    from twin.metrics import METRICS

    settings = preset_of(preset or "ours")
    settings = settings.model_copy(update={"members": members or settings.members, "epochs": epochs})
    wanted = METRICS if metrics is None else [name.strip() for name in metrics.split(",")]
    check_metrics(wanted)
    with terminal.progress("rows encoded") as report:
        rows = rows_of(dataset, report, _lens(profile))
    parts = datasets.split(rows, seed)
    terminal.stage(f"training on {len(parts.train)} of {len(rows)} rows")
    there = under_way(out, rows, settings, wanted, seed)
    if len(there):
        terminal.note(f"goes on from an interrupted training; networks that are there: {len(there)}")
    with kept("the finished networks"), terminal.progress("steps at most; training stops early") as report:
        ensembles = train_ensembles(
            rows, parts, settings, seed, wanted, steps(networks(settings, wanted), report), there
        )
    write_model(ensembles, out)
    there.discard()
    losses = [min(point[2] for point in each["curve"]) for one in ensembles for each in one.manifest["members"]]
    sizes = {name: len(part) for name, part in parts._asdict().items()}
    answer = ModelTrained(model=str(out), rows=sizes, metrics=tuple(wanted), validation_losses=tuple(losses))
    words = ", ".join(f"{loss:.3f}" for loss in losses)
    terminal.result(answer, f"model of {len(losses)} networks in {out}; best validation losses {words}")


def _lens(profile: Path | None) -> UnderProfile | None:
    from scenarios.calibration import profile_file
    from scenarios.calibration.profile_file import UnderProfile

    return None if profile is None else UnderProfile(profile_file.load(profile))


def model_of(name: str | Path) -> LearnedCostModel:
    """Cost model in a folder, or the shipped one. Raises BadInput if there is none."""
    from models import prediction, shipped

    return shipped.model() if str(name) == SHIPPED else prediction.load(Path(name))


def _fine_tune(
    dataset: Path,
    out: Path,
    start: Path,
    rehearse: Path | None,
    profile: Path | None,
    epochs: int | None,
    seed: int,
    terminal: Terminal,
) -> None:
    from models.pipeline import FineTuning
    from scenarios.learning import fine_tuning
    from scenarios.learning.learner import rows_of, write_model
    from streamtwin.tables import tables

    model = model_of(start)
    with terminal.progress("rows") as report:
        new = rows_of(dataset, report, _lens(profile))
        old = None if rehearse is None else rows_of(rehearse, report)
    how = FineTuning() if epochs is None else FineTuning(epochs=epochs)
    terminal.stage(f"fine-tuning on {len(new)} rows")
    with terminal.progress("steps at most; training stops early") as report:
        tuned = fine_tuning.tune(model, new, old, how, seed, report)
    write_model(tuned.ensembles, out)
    answer = fine_tuning.ModelTrained(model=str(out), rows=tuned.sizes, from_=str(start), evaluation=tuned.rows)
    title = f"predicted against simulated on held-out runs, before and after; the model is in {out}"
    terminal.result(answer, tables.of_rows(title, fine_tuning.COLUMNS, map(asdict, tuned.rows)))


def evaluate(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A folder that `twin train` wrote.")],
    dataset: DatasetFolder,
    terminal: Terminal,
    every_row: Annotated[bool, typer.Option("--all", help="Every row: for a dataset it was not trained on.")] = False,
    by_stratum: Annotated[
        bool, typer.Option("--strata", help="Also where the model's error sits: by query type, results and load.")
    ] = False,
    profile: Profile = None,
    seed: Seed = 0,
) -> None:
    """Predicted against simulated on held-out runs: q-errors and accuracy, beside baselines and the limit.

    Examples: `twin evaluate model dataset --strata` · `twin evaluate model other-dataset --all` ·
    `twin evaluate learned measured --all --profile engine.yaml`
    """
    from scenarios.learning import learner
    from streamtwin.tables import tables

    loaded = model_of(model)
    with terminal.progress("rows encoded") as report:
        rows = learner.rows_of(dataset, report, _lens(profile))
    terminal.stage("predicting" if every_row else "predicting, and training the baselines")
    found = learner.evaluate(loaded, rows, every_row=every_row, seed=seed, by_stratum=by_stratum)
    for note in found.notes:
        terminal.note(note)
    measures = {"q50": "q-error median", "q95": "q-error 95 %", "accuracy": "balanced accuracy"}
    columns = {"metric": "metric", "model": "model", "rows": "runs", **measures}
    title = f"predicted against simulated, {found.part} rows"
    shown = [tables.of_rows(title, columns, map(asdict, found.rows))]
    if found.strata:
        title = f"where the error of {loaded.name} sits"
        measures |= {"limit_q95": "limit, 95 %", "limit_accuracy": "limit, accuracy"}
        shown.append(tables.of_strata(title, measures, [asdict(row) for row in found.strata]))
    terminal.result(found, *shown)
