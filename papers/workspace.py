"""Sizes of experiments, and their workspace, which keeps what takes long: corpora, training rows, trained models."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from scenarios.executing import Audience, Progress
from scenarios.learning import CorpusRecipe
from scenarios.spaces.generator import FEATURES
from scenarios.spaces.registry import Make
from twin import VERSION
from twin.corpus.chunks import ChunkTask, Simulate, cut, keep_whole, simulate_chunk
from twin.corpus.manifest import (
    CHUNKS,
    CorpusSpec,
    content_hash,
    open_corpus,
    read_manifest,
    sole_writer,
)
from twin.corpus.rows import TITLE, describe, further_labels, of_corpora
from twin.errors import BadInput
from twin.files import new_folder, parse_json, stamped, unstamped, write_text
from twin.metrics import METRICS
from twin.run import metrics_of
from twin.simulation import simulate
from twin.trace import TRAINING_ROWS, read_table

if TYPE_CHECKING:
    import numpy as np

    from models.dataset import Dataset, RowSplit
    from models.encoding import PerturbedCosts
    from models.predictors import Fitted, Predictor


# sizes ---------------------------------------------------------------------------------------------------------------
# Sizes of experiments: the paper's, or smaller ones that take hours or minutes.


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Everything that decides how long an experiment takes.

    runs, replicates: of the main corpus; `replicates` of them are simulated twice, for the replicate limit. members:
    networks in an ensemble; restricted_members: the same where a model is trained for one evaluation alone. epochs:
    passes over the training rows; None: as many as the model's settings say. n: fresh runs of an evaluation corpus, or
    random jobs of a size. queries: per query type, where plans are chosen. candidates: plans a query. fine_tuning_runs:
    of the few-shot corpus. horizon_s: simulated seconds a run. judged: simulated runs of a plan on sockets.
    random_plans: on sockets, an application.
    """

    runs: int
    replicates: int
    members: int
    restricted_members: int
    epochs: int | None
    n: int
    queries: int
    candidates: int
    fine_tuning_runs: int
    judged: int
    random_plans: int
    horizon_s: float = 240.0


SMALL = Sizes(
    runs=1200,
    replicates=100,
    members=1,
    restricted_members=1,
    epochs=50,
    n=60,
    queries=6,
    candidates=200,
    fine_tuning_runs=150,
    judged=1,
    random_plans=10,
)
"""Sizes that take minutes on two cores. Models see a thirtieth of the paper's runs: it shows that all works."""

MEDIUM = Sizes(
    runs=10_000,
    replicates=500,
    members=1,
    restricted_members=1,
    epochs=None,
    n=200,
    queries=20,
    candidates=1000,
    fine_tuning_runs=700,
    judged=1,
    random_plans=100,
)
"""Sizes that take hours on two cores: a quarter of the paper's runs, two fifths of its queries, one network for three.
"""

PAPER = Sizes(
    runs=43_281,
    replicates=1000,
    members=3,
    restricted_members=1,
    epochs=None,
    n=500,
    queries=50,
    candidates=10_000,
    fine_tuning_runs=3000,
    judged=3,
    random_plans=1000,
)
"""Sizes of the paper's corpus. n is five times the paper's, because of a hundred runs only a handful fail."""

SCALES: Mapping[str, Sizes] = {"small": SMALL, "medium": MEDIUM, "paper": PAPER}


# recipes of corpora --------------------------------------------------------------------------------------------------
# Recipes of the corpora that experiments learn from and are measured on, each with a hash of what decides it.


EVALUATION_SEED = 1000
"""Offset of the seed for corpora that models are measured on, so that none repeats a query of the training corpus."""

_DEFAULT_HORIZON_S = 240.0


def label(recipe: CorpusRecipe) -> str:
    """Name of a recipe's folders: its name and six digits of the hash."""
    return f"{recipe.name}-{recipe.plan()[1].manifest()['config_hash'][:6]}"


def main_corpus(sizes: Sizes, seed: int) -> CorpusRecipe:
    """Training corpus over Costream's Table II, its first runs repeated under other seeds."""
    return CorpusRecipe(sizes.runs, seed, sizes.replicates, horizon_s=horizon(sizes))


def evaluation_corpus(sizes: Sizes, seed: int, space: str) -> CorpusRecipe:
    """Corpus of `sizes.n` fresh runs of a space."""
    return CorpusRecipe(sizes.n, seed + EVALUATION_SEED, space=space, horizon_s=horizon(sizes))


def horizon(sizes: Sizes) -> float | None:
    """Simulated seconds a run; None for the default, so that a recipe is the same as one that does not name it."""
    return None if sizes.horizon_s == _DEFAULT_HORIZON_S else sizes.horizon_s


# rows to learn from --------------------------------------------------------------------------------------------------
# Filters for rows of a corpus that a model may learn from: the restricted ranges of generalisation experiments.


class RowFilter(Protocol):
    """Named selection of rows; the name decides where a model that learned from them is kept."""

    @property
    def name(self) -> str:
        """Name of the rows, for people and for folder names."""

    def mask(self, dataset: Dataset) -> np.ndarray:
        """Whether each row belongs. [G]"""


@dataclass(frozen=True, slots=True)
class Within:
    """Filter for rows whose `feature` lies in [low, high]; a hardware feature, on every host in use.

    feature: a key of `Dataset.about`, or one of scenarios.spaces.generator.FEATURES.
    """

    feature: str
    low: float
    high: float

    @property
    def name(self) -> str:
        """Name such as `ram_mb-1000-to-16000`."""
        return f"{self.feature}-{self.low:g}-to-{self.high:g}"

    def mask(self, dataset: Dataset) -> np.ndarray:
        """Whether each row lies within. [G]"""
        ends = ("_min", "_max") if self.feature in FEATURES else ("", "")
        least, most = (dataset.about[self.feature + end] for end in ends)
        return np.asarray((least >= self.low) & (most <= self.high))


# corpora and rows ----------------------------------------------------------------------------------------------------
# Makes corpora and training rows for experiments: by Spark, or in this process where there are too few runs for one.
#
# Both write the same files, so that either can finish what the other began.


FEW_RUNS = 64
"""Largest number of runs for which starting Spark takes longer than it saves."""

_CHUNK_RUNS = 4
_RUN_LIMIT_S = 300.0


@dataclass(frozen=True, slots=True)
class CorpusJob:
    """Corpus to be simulated into a folder, and aggregated into another that does not exist yet."""

    corpus: Path
    dataset: Path
    make: Make
    spec: CorpusSpec


FanOut = Callable[[Sequence[CorpusJob], Audience], None]
"""Function that does all jobs; what it finished before an interruption stays."""


def fan_out(master: str = "local[*]") -> FanOut:
    """Function that does jobs in this process if there are few runs, else by Spark."""

    def do(jobs: Sequence[CorpusJob], audience: Audience) -> None:
        few = sum(job.spec.runs for job in jobs) <= FEW_RUNS
        (in_process if few else by_spark(master))(jobs, audience)

    return do


def by_spark(master: str) -> FanOut:
    """Function that does all jobs in one Spark session."""

    def do(jobs: Sequence[CorpusJob], audience: Audience) -> None:
        from spark.corpus import write_corpus
        from spark.pipeline import write_dataset
        from spark.session import session

        audience.stage("starting Spark")
        with session(master) as spark:
            for job in jobs:
                audience.stage(f"simulating {job.spec.runs} runs into {job.corpus}; Ctrl-C keeps what is finished")
                with audience.progress("runs") as report:
                    write_corpus(spark, job.corpus, job.spec, job.make, simulate, progress=report, note=audience.stage)
                audience.stage(f"aggregating {job.corpus}")
                write_dataset(spark, [job.corpus], job.dataset)

    return do


def in_process(jobs: Sequence[CorpusJob], audience: Audience, simulate: Simulate = simulate) -> None:
    """Simulates and aggregates one run after the other, without Spark."""
    for job in jobs:
        audience.stage(f"simulating {job.spec.runs} runs into {job.corpus}")
        with audience.progress("runs") as report:
            _simulate(job, simulate, report, audience.stage)
        _aggregate(job)


def _simulate(job: CorpusJob, simulate: Simulate, report: Progress, note: Callable[[str], None]) -> None:
    with sole_writer(job.corpus):
        chunks = cut(job.spec.runs, open_corpus(job.corpus, job.spec, _CHUNK_RUNS))
        task = ChunkTask(str(job.corpus), job.spec.seed, job.make, simulate, _RUN_LIMIT_S)
        whole = keep_whole(job.corpus, chunks, note)
        for chunk in chunks:
            if chunk not in whole:
                result = simulate_chunk(task, chunk, attempt=0)
                if result.problem:
                    raise BadInput(result.problem)
            report(chunk.stop, job.spec.runs)


def _aggregate(job: CorpusJob) -> None:
    chunks = sorted((job.corpus / CHUNKS).glob("chunk-*"))
    rows = [row for chunk in chunks for row in _training_rows(chunk)]
    if not rows:
        raise BadInput(f"no run of {job.corpus} succeeded; its runs.parquet files say why")
    counts = {"runs": job.spec.runs, "rows": len(rows), "failed": job.spec.runs - len(rows)}
    with new_folder(job.dataset) as aside:
        pq.write_table(pa.Table.from_pylist(rows, schema=TRAINING_ROWS), aside / "rows.parquet")
        about = of_corpora({job.corpus.name: read_manifest(job.corpus)}, counts)
        describe(aside, TITLE, about, TRAINING_ROWS.names, ["rows.parquet"])


def _training_rows(chunk: Path) -> list[dict[str, Any]]:
    """Training rows of the chunk's runs that ended well, as `spark.pipeline` computes them."""
    runs = [run for run in read_table(chunk, "runs").to_pylist() if run["status"] == "ok"]
    operators, events = (_by_run(chunk, table) for table in ("operators", "events"))
    return [_training_row(run, operators[run["run"]], events[run["run"]]) for run in runs]


def _by_run(chunk: Path, table: str) -> defaultdict[str, list[dict[str, Any]]]:
    found: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in read_table(chunk, table).to_pylist():
        found[row["run"]].append(row)
    return found


def _training_row(run: dict[str, Any], periods: list[dict[str, Any]], events: list[dict[str, Any]]) -> dict[str, Any]:
    found = metrics_of(periods, run["warmup_s"], run["crashed"])
    kept = ("run", "index", "seed", "config_hash", "horizon_s", "warmup_s", "deployment", "checkpoints")
    row = {name: run[name] for name in kept}
    row |= {name: getattr(found, name) for name in ("throughput_per_s", "backpressure_per_s", "backpressured")}
    row |= {"success": found.success, "records_out": found.records_out}
    row |= further_labels(periods, events, run["warmup_s"])
    for name in ("processing_latency", "e2e_latency", "result_delay"):
        latency = getattr(found, f"{name}_s")
        if latency is not None:
            quantiles = {f"{name}_{q}_s": getattr(latency, q) for q in ("p50", "p95", "p99")}
            row |= {f"{name}_s": latency.mean, **quantiles}
    return row


# models --------------------------------------------------------------------------------------------------------------
# Trains models that are missing and loads the others: a folder a contestant and training set, in it one a model.


@dataclass(frozen=True)
class Joined:
    """Several models of one contestant, for different metrics, as one model."""

    name: str
    parts: tuple[Fitted, ...]

    def predict(self, dataset: Dataset) -> Mapping[str, np.ndarray]:
        """Predictions of each part for its own metrics."""
        return {metric: values for part in self.parts for metric, values in part.predict(dataset).items()}

    def save(self, folder: Path) -> None:
        """Saves each part in a folder of its own."""
        for number, part in enumerate(self.parts):
            part.save(folder / str(number))


def folder_of(root: Path, contestant: Predictor, training_set: str, seed: int) -> Path:
    """Folder named after contestant and training set, and a hash over everything that decides the models."""
    from models.encoding import code_version

    key: dict[str, Any] = {"version": VERSION, "encoding": code_version(), "contestant": repr(contestant)}
    key |= {"rows": training_set, "seed": seed}
    words = re.sub(r"[^a-z0-9]+", "-", contestant.name.lower()).strip("-")
    return root / f"{words}-on-{training_set}-{content_hash(key)[:6]}"


def fitted(
    folder: Path,
    contestant: Predictor,
    data: Callable[[], tuple[Dataset, RowSplit]],
    seed: int,
    metrics: Sequence[str],
    audience: Audience,
) -> Fitted:
    """Contestant's models; each that `folder` lacks is trained, and kept before the next. data: called if needed."""
    groups = [(metric,) for metric in metrics] if _apart(contestant) else [tuple(metrics)]
    return Joined(contestant.name, tuple(_one(folder, contestant, data, seed, group, audience) for group in groups))


def _apart(contestant: Predictor) -> bool:
    """Whether each metric has a network of its own, so that each can be kept as soon as it is trained."""
    from models.predictors import Networks

    return isinstance(contestant, Networks) and contestant.settings.heads == "one"


def _one(
    folder: Path,
    contestant: Predictor,
    data: Callable[[], tuple[Dataset, RowSplit]],
    seed: int,
    metrics: tuple[str, ...],
    audience: Audience,
) -> Fitted:
    place = folder / "+".join(metrics)
    if place.exists():
        return contestant.load(place)
    dataset, parts = data()
    audience.stage(f"training {contestant.name} for {', '.join(metrics)} on {len(parts.train)} rows")
    with audience.progress("steps at most") as report:
        found = contestant.fit(dataset, parts, seed, metrics, report)
    with new_folder(place) as aside:
        found.save(aside)
    return found


# the workspace -------------------------------------------------------------------------------------------------------
# Workspace of experiments, which keeps what takes long: corpora, training rows, trained models, judged queries.
#
# Everything is made when it is first asked for, kept under a name with a hash of all that decided it, and found again
# by the next experiment or by the same command after an interruption.


class Workspace:
    """Folder of kept results with one seed and one scale. seed: of corpora, splits and networks."""

    def __init__(
        self, folder: Path, sizes: Sizes, seed: int, audience: Audience, simulating: FanOut | None = None
    ) -> None:
        self.folder, self.sizes, self.seed, self.audience = folder, sizes, seed, audience
        self.used: dict[str, CorpusRecipe] = {}
        self._simulating = simulating or fan_out()
        self._datasets: dict[tuple[str, PerturbedCosts | None], Dataset] = {}

    def reseeded(self, seed: int) -> Workspace:
        """Workspace with the same corpora and rows, but splits and networks of another seed."""
        found = Workspace(self.folder, self.sizes, seed, self.audience, self._simulating)
        found.used, found._datasets = self.used, self._datasets
        return found

    def prepare(self, recipes: Sequence[CorpusRecipe]) -> None:
        """Simulates and aggregates the recipes whose rows are not there yet, all in one Spark session."""
        named = {label(recipe): recipe for recipe in recipes}
        missing = {name: recipe for name, recipe in named.items() if not self._rows(name).exists()}
        jobs = [
            CorpusJob(self.folder / "corpora" / name, self._rows(name), *recipe.plan())
            for name, recipe in missing.items()
        ]
        if jobs:
            self._simulating(jobs, self.audience)

    def dataset(self, recipe: CorpusRecipe, misjudged: PerturbedCosts | None = None) -> Dataset:
        """Rows of a corpus; misjudged: errors of the engine's costs in them, if those are known only roughly."""
        name = label(recipe)
        self.used[name] = recipe
        if (name, misjudged) not in self._datasets:
            self.prepare([recipe])
            from scenarios import learning

            self.audience.stage(f"reading {self._rows(name)}")
            with self.audience.progress("rows encoded") as report:
                self._datasets[name, misjudged] = learning.rows_of(self._rows(name), report, misjudged)
        return self._datasets[name, misjudged]

    def split(self, recipe: CorpusRecipe, rows: RowFilter | None = None) -> RowSplit:
        """Training, validation and test rows; a filter takes rows from the former two and leaves the test rows alone.

        Raises BadInput if the filter leaves nothing to train or validate on.
        """
        from models import dataset as datasets

        dataset = self.dataset(recipe)
        parts = datasets.split(dataset, self.seed)
        if rows is None:
            return parts
        inside = rows.mask(dataset)
        kept = parts._replace(train=parts.train[inside[parts.train]], valid=parts.valid[inside[parts.valid]])
        if not len(kept.train) or not len(kept.valid):
            raise BadInput(f"no training row of {label(recipe)} lies within {rows.name}; simulate more runs")
        return kept

    def fitted(
        self,
        contestant: Predictor,
        recipe: CorpusRecipe,
        rows: RowFilter | None = None,
        metrics: Sequence[str] = METRICS,
        misjudged: PerturbedCosts | None = None,
    ) -> Fitted:
        """Contestant trained on (some rows of) a corpus; each of its models is kept as soon as it is trained."""
        training_set = "-".join([label(recipe), *(each.name for each in (rows, misjudged) if each is not None)])
        self.used[label(recipe)] = recipe
        folder = folder_of(self.folder / "models", contestant, training_set, self.seed)

        def data() -> tuple[Dataset, RowSplit]:
            return self.dataset(recipe, misjudged), self.split(recipe, rows)

        return fitted(folder, contestant, data, self.seed, metrics, self.audience)

    def cached(self, group: str, key: Mapping[str, Any], compute: Callable[[], Any]) -> Any:
        """Value of `compute` for a key, computed now or earlier: plain JSON values.

        group: a name for people, such as `fig9`. key: everything that decides the value, as JSON values; this version,
        the scale's horizon and the seed are added. Interrupted, all values that were finished are kept.
        """
        path, body = self._place(group, key)
        if path.exists():
            try:
                return unstamped(path.read_text(encoding="utf-8"))["value"]
            except (ValueError, KeyError):
                self.audience.stage(f"{path} is damaged; it is made again")
        text = stamped({"key": body, "value": compute()}, allow_nan=False)
        write_text(path, text + "\n")
        return parse_json(text)["value"]

    def has(self, group: str, key: Mapping[str, Any]) -> bool:
        """Whether the value for that key is kept already."""
        return self._place(group, key)[0].exists()

    def _place(self, group: str, key: Mapping[str, Any]) -> tuple[Path, Mapping[str, Any]]:
        body = {"version": VERSION, "seed": self.seed, "horizon_s": self.sizes.horizon_s, **key}
        return self.folder / "judged" / group / f"{content_hash(body)}.json", body

    def measured(self, group: str, function: Callable[..., Any], **case: Any) -> Any:
        """Value of `function` for the arguments of a case and this seed, computed now or earlier; as `cached`."""
        return self.cached(group, case, lambda: function(**case, seed=self.seed))

    def _rows(self, name: str) -> Path:
        return self.folder / "datasets" / name
