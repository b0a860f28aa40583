"""The model that is shipped, from nothing: corpora, training rows, networks, and what they are worth.

    python -m benchmarks.shipped_model FOLDER

simulates runs for training, and others that no network sees; trains on the former; and writes
models/shipped/all.msgpack and card.md. Given again, it goes on where it was interrupted, also in the middle of a corpus
or between two networks. All figures are of simulated runs.
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
from models.settings import COMPOSED
from models.shipped import FOLDER
from scenarios.executing import bar
from scenarios.learning import networks, rows_of, steps, under_way, write_model
from twin.files import write_text

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


HEAD = """# The shipped cost model

Every number here is of **simulated** runs; nothing was measured on a real cluster.

A graph neural network ({members} members, {size:,.0f} kB) that corrects the analytic rate model, for
`--cost-model learned`. Regressions are learned as ratios to the rate model's answer, backpressure and success as
offsets of its logits; the networks begin at no correction, and a gate a metric, fitted on validation rows, holds back
what does not help. Made by `python -m benchmarks.shipped_model FOLDER`.

Trained on {train:,} runs ({valid:,} more to stop and to calibrate) of three spaces, in runs of {shortest:.2g} to
{longest:.3g} s. `flink`: 1 to 12 sources and up to 40 operators of all kinds, windows, event time, state, calls,
checkpoints and pauses. `demanding`: arrivals in bursts, spikes and waves, skewed and drifting keys, calls, links in a
row, few hosts at 70 to 105 %; Flink, Storm and random engines. `wide`: engines whose costs lie in three decades below
`storm`'s, 2 to 8 hosts, a quarter of them with sockets, utilisations of 0.02 to 3. Not in them: events and policies.
`twin optimize` says what of a job a model does not see, and gives no interval then.
"""

TRAINED = (Part("flink", "flink", 4_992, 0), Part("demanding-0", "demanding", 4_000, 0), Part("wide-0", "wide", 600, 0))
HELD = (
    Part("flink-held-3", "flink", 500, 562301, 200),
    Part("demanding-held-3", "demanding", 250, 562302, 100),
    Part("wide-held-3", "wide", 100, 562303),
    Part("costream-held-3", "costream", 100, 562304),
)
"""Corpora for training, and for evaluation, which no network learns from."""


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


def trained(rows: Dataset, out: Path) -> prediction.LearnedCostModel:
    """Model in folder `out`, trained as far as it is not there yet."""
    if not out.exists():
        parts = split(rows, SEED, test=0.0)
        metrics = learnable(rows, parts.train)
        kept = under_way(out, rows, COMPOSED, metrics, SEED)
        with bar("steps of training") as report:
            told = steps(networks(COMPOSED, metrics), report)
            ensembles = pipeline.train(rows, parts, COMPOSED, SEED, metrics, told, kept)
        write_model(ensembles, out)
        kept.discard()
    return prediction.load(out)


def card_of(model: prediction.LearnedCostModel, rivals: Sequence[Fitted], held: Mapping[str, Dataset]) -> str:
    """Text of card.md. rivals: what the model is compared with. held: by space, rows that no network saw."""
    (ensemble,) = model.ensembles
    low_s, high_s = ensemble.manifest["horizons_s"]
    size = sum(leaf.size for leaf in jax.tree.leaves(ensemble.members)) * 4 / 1000
    about = {"members": len(ensemble.members), "size": size, "shortest": low_s, "longest": high_s}
    named = {f"`{space}`": rows for space, rows in held.items()}
    return "\n".join([HEAD.format(**about, **ensemble.manifest["rows"]), *evaluation.errors(model, rivals, named)])


def slim(ensemble: Ensemble) -> Ensemble:
    """Ensemble without the curves of its training, which take much of a file and which no prediction needs."""
    members = [{**each, "curve": []} for each in ensemble.manifest["members"]]
    return replace(ensemble, manifest={**ensemble.manifest, "members": members})


def main() -> None:
    """Makes the corpora, trains, evaluates, and writes the model and its card."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    held = {part.space: made(part, folder) for part in HELD}
    rows = reduce(join, [made(part, folder) for part in TRAINED])
    model = trained(rows, folder / "model")
    trees = PREDICTORS["trees-ratio"].fit(rows, split(rows, SEED, test=0.0), SEED)
    text = card_of(model, (RateModelAlone(), trees), held)
    for ensemble in model.ensembles:
        checkpoint.save(slim(ensemble), FOLDER)
    write_text(FOLDER / "card.md", text)
    print(text)


if __name__ == "__main__":
    main()
