"""The models that are shipped, from nothing: corpora, training rows, networks, and what they are worth.

    python -m benchmarks.shipped_model FOLDER [--model all|composed]

simulates runs for training, and others that no network sees; trains on the former; and writes
models/shipped/all.msgpack or models/shipped/composed/all.msgpack, with its card.md. Given again, it goes on where it
was interrupted, also in the middle of a corpus or between two networks. All figures are of simulated runs.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path

import jax

from models import checkpoint, evaluation, pipeline, prediction
from models.checkpoint import Ensemble
from models.dataset import Dataset, join, learnable, split
from models.predictors import PREDICTORS, Fitted, RateModelAlone
from models.settings import COMPOSED, RESIDUAL, TrainingSettings
from models.shipped import COMPOSED as COMPOSED_FOLDER
from models.shipped import FOLDER
from scenarios.executing import bar
from scenarios.learning import networks, rows_of, steps, under_way, write_model
from twin.files import write_text
from twin.metrics import METRICS

SEED = 0


@dataclass(frozen=True, slots=True)
class Part:
    """Corpus. runs: distinct ones. seed: of the corpus. again: number of runs that are simulated a second time under
    another seed, which shows how noisy runs are."""

    name: str
    space: str
    runs: int
    seed: int
    again: int = 0


ALL_HEAD = """# The shipped cost model

Every number here is of **simulated** runs; nothing was measured on a real cluster.

A graph neural network ({members} members, {size:,.0f} kB) that corrects the analytic rate model, for
`--cost-model learned`. Regressions are learned as ratios to the rate model's answer, backpressure and success as
offsets of its logits; the networks begin at no correction, and a gate a metric, fitted on validation rows, holds back
what does not help. Made by `python -m benchmarks.shipped_model FOLDER`.

Trained on {train:,} runs ({valid:,} more to stop and to calibrate) of two spaces, in runs of {shortest:.2g} to
{longest:.3g} s. `demanding`: arrivals in bursts, spikes and waves, skewed and drifting keys, calls, links in a row, few
hosts at 70 to 105 %, up to eight subtasks; Flink, Storm and random engines. `wide`: engines whose costs lie in three
decades below `storm`'s, Poisson arrivals, maps, measured joins, 2 to 8 hosts, a quarter of them with sockets,
utilisations of 0.02 to 3. Not in them: events, policies, broadcasts and other partitionings, pauses of a collector.
`twin optimize` says what of a job a model does not see, and gives no interval then.
"""


COMPOSED_HEAD = """# The shipped cost model for jobs in which much works together

Every number here is of **simulated** runs; nothing was measured on a real cluster.

A graph neural network ({members} members, {size:,.0f} kB) that `--cost-model learned` asks where a job has kinds, sizes
or checkpoints that the other shipped model never saw, or where a quantile, the delay of results or a checkpoint counts.
It sees what composes (`twin train --preset composed`). Made by
`python -m benchmarks.shipped_model FOLDER --model composed`.

Trained on {train:,} runs ({valid:,} more to stop and to calibrate) of two spaces, in runs of {shortest:.2g} to
{longest:.3g} s: `flink`, with 1 to 12 sources and up to 40 operators of all kinds,
windows, event time, state, calls, checkpoints and pauses, and `demanding`. Its rows are few: where rates know all that
matters, its gates hold it back.
"""


@dataclass(frozen=True, slots=True)
class Shipped:
    """Shipped model. folder: where its files go. held: corpora for evaluation, which no network learns from. further:
    whether it learns more than METRICS."""

    folder: Path
    settings: TrainingSettings
    head: str
    trained: tuple[Part, ...]
    held: tuple[Part, ...]
    further: bool = False


MODELS = {
    "all": Shipped(
        FOLDER,
        RESIDUAL,
        ALL_HEAD,
        (Part("demanding", "demanding", 38_800, 1), Part("wide", "wide", 1_200, 1)),
        (
            Part("demanding-held", "demanding", 500, 2, 500),
            Part("wide-held", "wide", 300, 2),
            Part("costream-held", "costream", 300, 2),
        ),
    ),
    "composed": Shipped(
        COMPOSED_FOLDER,
        COMPOSED,
        COMPOSED_HEAD,
        (Part("flink", "flink", 4_000, 0), Part("demanding-0", "demanding", 1_000, 0)),
        (
            Part("flink-held-2", "flink", 500, 561301, 200),
            Part("demanding-held-2", "demanding", 250, 561302, 100),
            Part("costream-held-2", "costream", 100, 561304),
            Part("wide-held-2", "wide", 100, 561303),
        ),
        further=True,
    ),
}


def made(part: Part, folder: Path) -> Dataset:
    """Rows of a corpus, which is kept in `folder` and simulated as far as it is not there yet."""
    corpus, rows = folder / part.name, folder / f"{part.name}-rows"
    options = {"--runs": part.runs, "--replicates": part.again, "--space": part.space, "--seed": part.seed}
    _twin("corpus", corpus, *(str(each) for option in options.items() for each in option))
    if not rows.exists():
        _twin("dataset", corpus, rows)
    return rows_of(rows)


def _twin(*arguments: str | Path) -> None:
    subprocess.run([sys.executable, "-m", "streamtwin", *map(str, arguments)], check=True)


def trained(shipped: Shipped, rows: Dataset, out: Path) -> prediction.LearnedCostModel:
    """Model in folder `out`, trained as far as it is not there yet."""
    if not out.exists():
        parts, settings = split(rows, SEED, test=0.0), shipped.settings
        metrics = learnable(rows, parts.train) if shipped.further else METRICS
        kept = under_way(out, rows, settings, metrics, SEED)
        with bar("steps of training") as report:
            told = steps(networks(settings, metrics), report)
            ensembles = pipeline.train(rows, parts, settings, SEED, metrics, told, kept)
        write_model(ensembles, out)
        kept.discard()
    return prediction.load(out)


def card_of(
    head: str, model: prediction.LearnedCostModel, rivals: Sequence[Fitted], held: Mapping[str, Dataset]
) -> str:
    """Text of card.md. rivals: what the model is compared with. held: by space, rows that no network saw."""
    (ensemble,) = model.ensembles
    low_s, high_s = ensemble.manifest["horizons_s"]
    size = sum(leaf.size for leaf in jax.tree.leaves(ensemble.members)) * 4 / 1000
    about = {"members": len(ensemble.members), "size": size, "shortest": low_s, "longest": high_s}
    named = {f"`{space}`": rows for space, rows in held.items()}
    return "\n".join([head.format(**about, **ensemble.manifest["rows"]), *evaluation.errors(model, rivals, named)])


def slim(ensemble: Ensemble) -> Ensemble:
    """Ensemble without the curves of its training, which take much of a file and which no prediction needs."""
    members = [{**each, "curve": []} for each in ensemble.manifest["members"]]
    return replace(ensemble, manifest={**ensemble.manifest, "members": members})


def main() -> None:
    """Makes the corpora, trains, evaluates, and writes the model and its card."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", choices=MODELS, default="all")
    options = parser.parse_args()
    folder, shipped = options.folder, MODELS[options.model]
    held = {part.space: made(part, folder) for part in shipped.held}
    rows = reduce(join, [made(part, folder) for part in shipped.trained])
    model = trained(shipped, rows, folder / f"model-{options.model}")
    trees = PREDICTORS["trees-ratio"].fit(rows, split(rows, SEED, test=0.0), SEED)
    text = card_of(shipped.head, model, (RateModelAlone(), trees), held)
    for ensemble in model.ensembles:
        checkpoint.save(slim(ensemble), shipped.folder)
    write_text(shipped.folder / "card.md", text)
    print(text)


if __name__ == "__main__":
    main()
