"""The model that is shipped, from nothing: corpora, training rows, networks, and what they are worth.

    python -m benchmarks.shipped_model FOLDER

simulates runs of the spaces `demanding` and `wide` for training, and others of these and of Costream's that no network
sees; trains on the former; and writes models/shipped/all.msgpack and models/shipped/card.md. Given again, it goes on
where it was interrupted, also in the middle of a corpus or between two networks. All figures are of simulated runs.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path

import jax
import numpy as np

from models import checkpoint, evaluation, pipeline, prediction
from models.checkpoint import Ensemble
from models.dataset import Dataset, join, split
from models.labels import KINDS
from models.prediction import SHARE
from models.predictors import PREDICTORS, Fitted, FittedNetworks, RateModelAlone
from models.settings import RESIDUAL
from models.shipped import FOLDER
from scenarios.executing import bar
from scenarios.learning import networks, rows_of, steps, under_way, write_model
from twin.files import write_text
from twin.metrics import METRICS, REGRESSION_METRICS, TABLE

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


TRAINED = (Part("demanding", "demanding", 38_800, 1), Part("wide", "wide", 1_200, 1))
HELD = (
    Part("demanding-held", "demanding", 500, 2, 500),
    Part("wide-held", "wide", 300, 2),
    Part("costream-held", "costream", 300, 2),
)
"""Corpora for evaluation; no network learns from the last one's space."""

HEAD = """# The shipped cost model

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
    """Model in file `out`, trained as far as it is not there yet."""
    if not out.exists():
        kept = under_way(out, rows, RESIDUAL, METRICS, SEED)
        with bar("steps of training") as report:
            told = steps(networks(RESIDUAL, METRICS), report)
            ensembles = pipeline.train(rows, split(rows, SEED, test=0.0), RESIDUAL, SEED, METRICS, told, kept)
        write_model(ensembles, out)
        kept.discard()
    return prediction.load(out)


def card(model: prediction.LearnedCostModel, rivals: Sequence[Fitted], held: Mapping[str, Dataset]) -> str:
    """Text of card.md. rivals: what the model is compared with. held: by space, rows that no network saw."""
    (ensemble,) = model.ensembles
    low_s, high_s = ensemble.manifest["horizons_s"]
    size = sum(leaf.size for leaf in jax.tree.leaves(ensemble.members)) * 4 / 1000
    about = {"members": len(ensemble.members), "size": size, "shortest": low_s, "longest": high_s}
    lines = [HEAD.format(**about, **ensemble.manifest["rows"]), *_gates(ensemble)]
    fitted = (FittedNetworks("learned", model), *rivals)
    for space, rows in held.items():
        lines += [*_errors(space, fitted, rows), *_kinds(fitted, rows)]
    return "\n".join([*lines, *_coverage(model, held), ""])


def _table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    cells = [list(header), *map(list, rows)]
    return ["| " + " | ".join(row) + " |" for row in (cells[0], ["---"] * len(cells[0]), *cells[1:])] + [""]


def _gates(ensemble: Ensemble) -> list[str]:
    """Table of the gates: the share of the correction that counts."""
    rows = ([kind, *(f"{gate:g}" for gate in gates)] for kind, gates in zip(KINDS, ensemble.scaling.gate, strict=True))
    header = ["plans", *(TABLE[name].symbol for name in ensemble.metrics)]
    return ["## Gates", "", "Share of the correction that counts.", "", *_table(header, rows)]


def _errors(space: str, fitted: Sequence[Fitted], held: Dataset) -> list[str]:
    found = {(row.metric, row.model): row for each in fitted for row in evaluation.evaluate(each, held)}
    found |= {(row.metric, row.model): row for row in evaluation.replicate_rows(held)}
    names = list(dict.fromkeys(name for _, name in found))
    rows = ([metric, *(_words(found[metric, name]) for name in names)] for metric in METRICS)
    title = f"## Held-out error: `{space}`, {len(np.unique(held.config_hash))} jobs"
    about = "q-error, median / 95 %; of yes or no, balanced accuracy."
    return [title, "", about, "", *_table(["metric", *names], rows)]


def _words(row: evaluation.ErrorRow) -> str:
    if row.accuracy is not None:
        return f"{row.accuracy:.1%}"
    return "-" if row.q50 is None else f"{row.q50:.3f} / {row.q95:.2f}"


def _kinds(fitted: Sequence[Fitted], held: Dataset) -> list[str]:
    """Table of the processing latency's q-error, median and 95 %, by kind of plan."""
    name, kinds = "processing_latency_s", held.graphs.kind_G
    found = [each.predict(held)[name] for each in fitted]
    truth, rows = held.label_G(name), []
    for kind, words in enumerate(KINDS):
        mask = (kinds == kind) & ~np.isnan(truth)
        errors = [evaluation.q_error(truth[mask], each[mask]) for each in found] if mask.any() else []
        shown = [f"{np.median(each):.3f} / {np.quantile(each, 0.95):.2f}" for each in errors]
        rows += [[words, str(int(mask.sum())), *shown]] if errors else []
    header = ["processing latency of plans", "runs", *(each.name for each in fitted)]
    return _table(header, rows)


def _coverage(model: prediction.LearnedCostModel, held: Mapping[str, Dataset]) -> list[str]:
    """Table of the share of simulated values that lie in their intervals, and of the intervals' width."""
    lines = [f"## Intervals of {SHARE:.0%}", "", "Held-out runs inside, and the median factor up and down.", ""]
    rows = []
    for metric in REGRESSION_METRICS:
        row = [metric]
        for part in held.values():
            between = model.around(model.predict_graphs(part.graphs), metric)
            assert between is not None, "a correction of the rate model has intervals"
            truth = part.label_G(metric)
            known = ~np.isnan(truth)
            low, high = between[:, known]
            inside = float(((low <= truth[known]) & (truth[known] <= high)).mean())
            row.append(f"{inside:.1%}, {float(np.median(np.sqrt(high / low))):.3f}")
        rows.append(row)
    return [*lines, *_table(["metric", *held], rows)]


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
    text = card(model, (RateModelAlone(), trees), held)
    for ensemble in model.ensembles:
        checkpoint.save(slim(ensemble), FOLDER)
    write_text(FOLDER / "card.md", text)
    print(text)


if __name__ == "__main__":
    main()
