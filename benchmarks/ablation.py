"""Effect of each law of the rate model by itself: its errors on exact runs, with the law and without it.

Run: python -m benchmarks.ablation FOLDER [LAW ...]

FOLDER has rows of held-out corpora, `*-rows` (`twin dataset`), and keeps the means of runs of the ordinary jobs. A law
is taken out by putting a plain one in its place. A line for each law and set shows at how many jobs answers differ, and
the errors without the law: q-errors as median / 95 %, and balanced accuracies in percent. A law that moves no median by
2 %, no 95 % quantile by 10 % and no accuracy by a point on any set needs another reason to stay.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from fnmatch import fnmatch
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pyarrow.parquet as pq

from benchmarks.ordinary.comparing import PREDICTED, simulated
from benchmarks.ordinary.jobs import load, scenario
from benchmarks.table import print_table
from models.dataset import CHECKPOINTS_COLUMN
from models.encoding import Text, deployment_of
from models.evaluation import row
from twin.deployment import Deployment
from twin.files import write_text
from twin.kinds.flow import IN_ORDER, HeldRecords
from twin.metrics import METRICS, REGRESSION_METRICS
from twin.rates.bursts import Waited
from twin.rates.channels import MeasuredSpan, fair_rates
from twin.rates.filling import Shown
from twin.rates.load import Load
from twin.rates.model import RateModel
from twin.rates.sockets import shared
from twin.rates.waiting import Gaps

SEEDS = 12
"""Number of runs of each ordinary job, as in `benchmarks.ordinary`."""
TOUCHED = 1e-3
"""Largest relative difference of answers that count as the same."""


def _no_batches(layout: Any, *_: Any) -> tuple[np.ndarray, np.ndarray]:
    return np.zeros((len(layout.job.streams), layout.size)), np.zeros((len(layout.job.names), layout.size))


def _poisson(layout: Any, *_: Any) -> Gaps:
    return Gaps(*np.ones((3, len(layout.job.names), layout.size)))


def _like_last(*given: Any) -> np.ndarray:
    return np.zeros_like(given[-1])


def _as_in_the_end(_: Any, offered: Load, reached: Load, full_sn: np.ndarray, measured: MeasuredSpan) -> Shown:
    taken_on = np.divide(reached.in_on, offered.in_on, out=np.ones(reached.in_on.shape), where=offered.in_on > 0.0)
    behind_on = (1.0 - taken_on) * (measured.start_s + measured.end_s) / 2.0
    return Shown(taken_on, behind_on, np.zeros_like(taken_on), np.where(full_sn, np.inf, 0.0))


LAWS: Mapping[str, Mapping[str, Any]] = {
    "overloaded jobs fill": {"filling.shown": _as_in_the_end},
    "bursts of windows block": {"channels.burst_blocking": lambda *_: {}},
    "results keep upstream idle": {"channels.held_up": lambda *_: (1.0, 0.0)},
    "one line by room": {"channels.fair_rates": lambda rates, over, _: fair_rates(rates, over)},
    "the first buffers that are full": {"layout.Layout.first_room_sn": property(lambda layout: layout.room_sn)},
    "joins stall by their own bursts": {"channels.stalls": lambda *_: {}},
    "uneven keys in windows": {"job.spreads": lambda *_: {}},
    "uneven keys and partitions": {"seats.uneven_shares": lambda *_: {}},
    "many orders of keys": {"seats.ORDERS": 1},
    "waits for batches, and in them": {"waiting.batch_waits_s": _no_batches},
    "what comes at one moment": {"waiting.beside_on": lambda *_: None},
    "answers that leave in order": {"waiting.bunched_s": _like_last},
    "waits for calls": {"waiting._place_s": lambda *_: 0.0, "waiting._turn_s": lambda *_: 0.0},
    "regular gaps": {"waiting.gap_scvs": _poisson},
    "waits for cards and links": {
        "channels._card_waits_sn": _like_last,
        "channels.LinkLayout.waits_sn": _like_last,
    },
    "collisions on shared cores": {"waiting.shared": lambda *given: shared(*given)._replace(longer_cn=np.zeros(1))},
    "visits to shared cores": {"waiting.shared": lambda *given: shared(*given)._replace(variability_cn=np.ones(1))},
    "cores idle beside few tasks": {"sockets.cores_beside": lambda cores, *_: np.ones(len(cores))},
    "one queue of several": {"waiting._of_common_queues": lambda *given: given[-1]},
    "evaluations take time": {"latency._evaluated_s": lambda *_: 0.0},
    "event time waits for watermarks": {"watermarks.Watermarks._announced": lambda *_: (IN_ORDER, 0.0)},
    "watermarks wait for the last flush": {"watermarks._last_flush_s": lambda _, batch_sn: np.zeros_like(batch_sn)},
    "watermarks wait for all calls": {"watermarks.Watermarks._cleared_s": lambda *_: 0.0},
    "lags differ": {"latency.variance_by": lambda _, means, __: np.zeros(means.shape[1:])},
    "barriers wait for the slowest subtask": {"latency.longest": lambda rho, _: np.ones_like(rho)},
    "the oldest of inputs of several ages": {"latency.HeldRecords": lambda *given: HeldRecords(*given[:-1])},
    "pressure that a run shows": {"model._pressure_shown": lambda share, *_: np.full(share.shape[1], np.inf)},
    "chances of few evaluations": {"model._chances": lambda _fires, per_s, run_s: np.minimum(per_s * run_s, 1000.0)},
    "results wait for commits": {"latency.Commits.seen": lambda _, found, __: found},
    "work gathers at peaks": {
        "bursts.Gathered.pass_on": lambda gathered, *_: Waited(*np.zeros((3, len(gathered.behind))))
    },
    "pauses and checkpoints take time": {"latency.stopped_hn": lambda *_: np.zeros(1)},
    "ages are of what comes in the run": {"latency._coming": lambda rates, *_: (rates, np.full(1, np.inf))},
}
"""For each law, what replaces it: by name in `twin.rates`, or in `twin`, the plain law."""


@contextmanager
def without(plain: Mapping[str, Any]) -> Iterator[None]:
    """Puts plain laws into every module of the rate model that uses the proper ones, for the length of a block."""
    with ExitStack() as patched:
        for path, law in plain.items():
            first, *inner, name = path.split(".")
            owner = import_module(f"twin.{first}" if first == "job" else f"twin.rates.{first}")
            owners = [owner, *(each for key, each in sys.modules.items() if key.startswith("twin.rates."))]
            if inner:
                owners = [owner := getattr(owner, *inner)]
            proper = vars(owner)[name]
            for each in owners:
                if vars(each).get(name) is proper:
                    patched.enter_context(patch.object(each, name, law))
        yield


class Runs(NamedTuple):
    """Set of exact runs. asked: the rate model for each run, and its job. truth: by metric, NaN where there is none."""

    name: str
    asked: Sequence[tuple[RateModel, Deployment]]
    truth: Mapping[str, np.ndarray]

    def answers(self) -> dict[str, np.ndarray]:
        """Answers of the rate model as it is now, by metric."""
        found = [model.answer(job, [job.plan]).costs.by_metric for model, job in self.asked]
        return {metric: np.array([float(each[metric][0]) for each in found]) for metric in self.truth}

    def errors(self, said: Mapping[str, np.ndarray]) -> list[str]:
        """Errors of answers, one text for each metric."""
        rows = [row(metric, "", self.truth[metric], said[metric]) for metric in METRICS if metric in self.truth]
        words = ["-" if r.accuracy is None else f"{r.accuracy:.1%}" for r in rows if r.q50 is None]
        return [f"{r.q50:.3f} / {r.q95:.3f}" for r in rows if r.q50 is not None] + (words or ["", ""])


def ordinary(folder: Path) -> Runs:
    """Ordinary jobs of which the rate model sees everything, beside means of SEEDS runs, which the folder keeps."""
    kept, jobs = folder / "ordinary.json", load()
    seen = {name: scenario(name, job, seed=1) for name, job in jobs.items()}
    seen = {name: job for name, job in seen.items() if not RateModel().blind_to(job)}
    if not kept.exists():
        runs = {name: [simulated(name, jobs[name], seed + 1) for seed in range(SEEDS)] for name in seen}
        write_text(
            kept, json.dumps({n: {k: np.mean([r[k] for r in each]) for k in PREDICTED} for n, each in runs.items()})
        )
    means = json.loads(kept.read_text())
    truth = {metric: np.array([means[name][k] for name in seen]) for k, metric in PREDICTED.items()}
    return Runs("ordinary", [(RateModel(), job) for job in seen.values()], truth)


def corpus(rows: Path) -> Runs:
    """Runs of a dataset, one for each configuration."""
    file = rows / "rows.parquet"
    wanted = ["config_hash", "deployment", CHECKPOINTS_COLUMN, "warmup_s", "horizon_s", *METRICS]
    held = pq.ParquetDataset(file).schema.names
    table = pq.read_table(file, columns=[name for name in wanted if name in held]).to_pydict()
    first = np.unique(table["config_hash"], return_index=True)[1].tolist()
    truth = {metric: np.array([table[metric][g] for g in first], dtype=float) for metric in METRICS}
    for metric in REGRESSION_METRICS:
        truth[metric][truth["success"] == 0.0] = np.nan
    spans = {g: MeasuredSpan(table["warmup_s"][g], table["horizon_s"][g]) for g in first}
    checkpoints = table.get(CHECKPOINTS_COLUMN, [None] * len(table["config_hash"]))
    texts = [Text(table["config_hash"][g], table["deployment"][g], spans[g], checkpoints[g]) for g in first]
    asked = [(RateModel(text.measured.end_s), deployment_of(text)) for text in texts]
    return Runs(rows.name.removesuffix("-rows"), asked, truth)


def main() -> None:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("laws", nargs="*", default=["*"], help="some of them; * and ? stand for others")
    options = parser.parse_args()
    parts = [ordinary(options.folder), *map(corpus, sorted(options.folder.glob("*-rows")))]
    known = {part.name: part.answers() for part in parts}
    table = [("all", part.name, len(part.asked), *part.errors(known[part.name])) for part in parts]
    for law in (law for law in LAWS if any(fnmatch(law, each) for each in options.laws)):
        for part in parts:
            with without(LAWS[law]):
                said = part.answers()
            off = [np.abs(said[each] - all_) > TOUCHED * np.abs(all_) for each, all_ in known[part.name].items()]
            if (touched := int(np.any(off, axis=0).sum())) > 0:
                table.append((law, part.name, touched, *part.errors(said)))
    print_table("Without a law", ("law", "set", "jobs", "T", "Lp", "Le", "backpressure", "success"), table)


if __name__ == "__main__":
    main()
