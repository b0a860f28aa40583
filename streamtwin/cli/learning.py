"""Commands `twin train`, which makes a cost model of training rows, and `twin evaluate`, which measures its errors.

Commands `twin corpus` and `twin dataset`: many runs, then training rows, both by Spark."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streamtwin.cli.terminal import Seed, Set, Terminal, kept
from streamtwin.questions.plans import model_of
from twin.errors import BadInput

if TYPE_CHECKING:
    from scenarios.calibration.profile_file import UnderProfile
    from scenarios.learning import CorpusRecipe
    from scenarios.spaces.registry import Make
    from twin.corpus.chunks import CorpusSummary
    from twin.corpus.manifest import CorpusSpec

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
    metrics: Annotated[
        str | None, typer.Option(metavar="A,B,...", help="Metrics to predict. Default: all that the rows tell.")
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
    *,
    terminal: Terminal,
) -> None:
    """Trains an ensemble of graph neural networks on simulated runs.

    Interrupted, it keeps the networks that are done; the same command goes on with the next one.

    Examples: `twin train dataset model` · `twin train dataset model --members 1 --epochs 20` ·
    `twin train dataset costream --preset paper` · `twin train chains better --from model --rehearse dataset` ·
    `twin train measured mine --from learned --profile engine.yaml`
    """
    from scenarios.files.run_folder import check_free

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
    from models.settings import PAPER
    from models.settings import preset as preset_of
    from scenarios.learning import (
        CARD,
        ModelTrained,
        card_of,
        kept_apart,
        networks,
        rows_of,
        steps,
        under_way,
        write_model,
    )
    from twin.metrics import METRICS

    settings = preset_of(preset or "ours")
    settings = settings.model_copy(update={"members": members or settings.members, "epochs": epochs})
    named = None if metrics is None else tuple(name.strip() for name in metrics.split(","))
    if named is not None:
        check_metrics(named)
    with terminal.progress("rows encoded") as report:
        rows = rows_of(dataset, report, _lens(profile))
    parts = datasets.split(rows, seed)
    usual = METRICS if settings.heads == PAPER.heads else datasets.learnable(rows, parts.train)
    wanted = usual if named is None else named
    terminal.stage(f"training on {len(parts.train)} of {len(rows)} rows")
    there = under_way(out, rows, settings, wanted, seed)
    if len(there):
        terminal.note(f"goes on from an interrupted training; networks that are there: {len(there)}")
    with kept("the finished networks"), terminal.progress("steps at most") as report:
        ensembles = train_ensembles(
            rows, parts, settings, seed, wanted, steps(networks(settings, wanted), report), there
        )
    terminal.stage("judging it on the rows kept apart")
    about = {"dataset": dataset, "preset": preset or "ours"} | ({} if profile is None else {"profile": profile})
    held = {"rows kept apart": kept_apart(rows, parts.test)}
    write_model(ensembles, out, card_of(ensembles, held, out.name, about))
    there.discard()
    losses = [min(point[2] for point in each["curve"]) for one in ensembles for each in one.manifest["members"]]
    sizes = {name: len(part) for name, part in parts._asdict().items()}
    answer = ModelTrained(model=str(out), rows=sizes, metrics=wanted, validation_losses=tuple(losses))
    words = ", ".join(f"{loss:.3f}" for loss in losses)
    told = f"model of {len(losses)} networks in {out}; best validation losses {words}"
    terminal.result(answer, f"{told}; errors are in {out / CARD}")


def _lens(profile: Path | None) -> UnderProfile | None:
    from scenarios.calibration import profile_file
    from scenarios.calibration.profile_file import UnderProfile

    return None if profile is None else UnderProfile(profile_file.load(profile))


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
    from scenarios import learning
    from scenarios.learning import card_of, rows_of, write_model
    from streamtwin.tables import tables

    model = model_of(start)
    with terminal.progress("rows") as report:
        new = rows_of(dataset, report, _lens(profile))
        old = None if rehearse is None else rows_of(rehearse, report)
    how = FineTuning() if epochs is None else FineTuning(epochs=epochs)
    terminal.stage(f"fine-tuning on {len(new)} rows")
    with terminal.progress("steps at most") as report:
        tuned = learning.tune(model, new, old, how, seed, report)
    about = {"dataset": dataset, "from": start} | ({} if rehearse is None else {"rehearsed": rehearse})
    write_model(tuned.ensembles, out, card_of(tuned.ensembles, tuned.held, out.name, about))
    answer = learning.ModelTrained(model=str(out), rows=tuned.sizes, from_=str(start), evaluation=tuned.rows)
    title = f"predicted against simulated on held-out runs, before and after; the model is in {out}"
    terminal.result(answer, tables.of_rows(title, learning.COLUMNS, map(asdict, tuned.rows)))


def evaluate(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A folder that `twin train` wrote.")],
    dataset: DatasetFolder,
    every_row: Annotated[bool, typer.Option("--all", help="Every row: for a dataset it was not trained on.")] = False,
    by_stratum: Annotated[
        bool, typer.Option("--strata", help="Also where the model's error sits: by query type, results and load.")
    ] = False,
    profile: Profile = None,
    seed: Seed = 0,
    *,
    terminal: Terminal,
) -> None:
    """Predicted against simulated on held-out runs: q-errors and accuracy, beside baselines and the limit.

    Rows of kinds that the model never saw in training are left out, and named with their number.

    Examples: `twin evaluate model dataset --strata` · `twin evaluate model other-dataset --all` ·
    `twin evaluate learned measured --all --profile engine.yaml`
    """
    from scenarios import learning
    from streamtwin.tables import tables

    loaded = model_of(model)
    with terminal.progress("rows encoded") as report:
        rows = learning.rows_of(dataset, report, _lens(profile))
    terminal.stage("predicting" if every_row else "predicting, and training the baselines")
    found = learning.evaluate(loaded, rows, every_row=every_row, seed=seed, by_stratum=by_stratum)
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


Master = Annotated[
    str,
    typer.Option("--master", metavar="URL", help="Spark master: local[N], or spark://HOST:PORT with shared storage."),
]


def corpus(
    out: Annotated[
        Path, typer.Argument(metavar="OUT", help="Folder; the same command resumes it, more --runs let it grow.")
    ],
    runs: Annotated[int, typer.Option(metavar="N", min=1, help="How many runs.")],
    space: Annotated[
        str | None,
        typer.Option(metavar="SPACE", help="Random scenarios of a space of `twin list`, or of a YAML file of yours."),
    ] = None,
    scenario: Annotated[
        str | None,
        typer.Option(
            metavar="SCENARIO",
            help="This scenario with other plans, rates and hardware. With --space: drawn from that space.",
        ),
    ] = None,
    set_: Set = None,
    master: Master = "local[*]",
    horizon: Annotated[float | None, typer.Option(metavar="S", help="Simulated seconds a run.")] = None,
    replicates: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, help="Simulate the first N runs again, with other seeds. Only N can grow then."
        ),
    ] = 0,
    seed: Seed = 0,
    *,
    terminal: Terminal,
) -> None:
    """Simulates many scenarios and writes their traces, resumable at any moment, and a data card (OUT/card.md).

    Given again, with the same or more runs, it simulates what is missing; damaged files are found and made again.

    Examples: `twin corpus corpus --runs 2000` · `twin corpus grid --runs 500 --scenario smart-grid --horizon 60` ·
    `twin corpus spikes --runs 100 --scenario spike-detection --space costream` ·
    `twin corpus mine --runs 1000 --space space.yaml`
    """
    from scenarios import learning
    from twin.corpus.chunks import CARD, complete
    from twin.corpus.manifest import check_corpus

    if space is not None and not space.strip():
        raise BadInput("--space '': it is empty; name one of twin list spaces, or a YAML file, or leave it out")
    recipe = learning.CorpusRecipe(
        runs=runs,
        seed=seed,
        space=space,
        scenario=scenario,
        horizon_s=horizon,
        replicates=replicates,
        set_=tuple(set_ or ()),
    )
    make, spec = recipe.plan()
    check_corpus(out, spec)  # before a JVM is started in vain
    if summary := complete(out, spec):
        card = out / f"{CARD}.md"
    else:
        with kept(f"the finished runs in {out}"):
            summary, card = _simulated(out, recipe, make, spec, master, terminal)
    answer = learning.CorpusWritten(**asdict(summary), card=str(card))
    terminal.result(answer, f"{learning.in_words(summary, out)}; described in {card}")


def _simulated(
    out: Path, recipe: CorpusRecipe, make: Make, spec: CorpusSpec, master: str, terminal: Terminal
) -> tuple[CorpusSummary, Path]:
    """Simulates the missing runs of the corpus, and writes its card; returns the summary, and the card's path."""
    from spark.corpus import write_corpus
    from spark.pipeline import write_card
    from spark.session import session
    from twin.simulation import simulate

    terminal.stage("starting Spark")
    with session(master) as spark:
        terminal.stage(f"simulating {spec.runs} runs into {out}; Ctrl-C keeps what is finished")
        with terminal.progress("runs") as report:
            summary = write_corpus(spark, out, spec, make, simulate, progress=report, note=terminal.stage)
        terminal.stage("describing it")
        return summary, write_card(spark, out, recipe.command)


def dataset(
    corpora: Annotated[
        list[Path], typer.Argument(metavar="CORPUS...", help="Folders that `twin corpus` wrote, one or more.")
    ],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="New folder of training rows.")],
    master: Master = "local[*]",
    _seed: Seed = 0,
    *,
    terminal: Terminal,
) -> None:
    """Aggregates corpora to training rows: one a run, with its labels, in Parquet, and a card (OUT/_card.md).

    A run that several corpora have (equal configuration and seed) is one row, of the corpus named first.

    Examples: `twin dataset corpus dataset` · `twin dataset grid spikes together`
    """
    from spark.pipeline import check_dataset, write_dataset
    from spark.session import session
    from twin.corpus.rows import CARD

    check_dataset(corpora, out)  # before a JVM is started in vain
    terminal.stage("starting Spark")
    with session(master) as spark:
        terminal.stage(f"aggregating {', '.join(map(str, corpora))}")
        summary = write_dataset(spark, corpora, out)
    left_out = {"failed": summary.failed, "were there twice": summary.duplicates}
    words = ", ".join(f"{count} runs {what}" for what, count in left_out.items() if count)
    told = f" ({words})" if words else ""
    terminal.result(asdict(summary), f"{summary.rows} training rows in {out}{told}; {out / CARD} explains the columns")
