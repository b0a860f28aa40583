"""Learning of cost models: corpora, training, fine-tuning."""

from __future__ import annotations

import hashlib
import itertools
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from models import dataset as datasets
from models import encoding, evaluation
from models.checkpoint import Ensemble, save
from models.dataset import Dataset, RowSplit, split
from models.encoding import PARALLEL_FROM, Reprofiled
from models.evaluation import BreakdownRow, ErrorRow, card, error_breakdown
from models.features import FEATURE_VERSION
from models.pipeline import FineTuning, fine_tune, rehearsing
from models.prediction import LearnedCostModel
from models.predictors import PREDICTORS, Fitted, FittedNetworks, RateModelAlone
from models.settings import TrainingSettings
from models.training import MemberCheckpoints
from scenarios.executing import Progress, Report
from scenarios.files import scenario_file
from scenarios.files.documents import CLOSED, Number
from scenarios.files.run_folder import check_free, png
from scenarios.files.scenario_file import set_values
from scenarios.spaces import space_file
from scenarios.spaces.registry import (
    DRAWN,
    Make,
    OneQuery,
    RandomScenarios,
    ScenarioFamily,
    among_others,
    drawn,
    replicated,
)
from scenarios.spaces.space_file import JobSpace, QueriesOfFile, VariationsOfFile
from twin import VERSION
from twin.corpus.chunks import CorpusSummary
from twin.corpus.manifest import DISTINCT, CorpusSpec, content_hash
from twin.errors import BadInput
from twin.files import new_folder, write_text
from twin.metrics import BINARY_METRICS, ESTIMATED, METRICS
from twin.scenario import RunSettings, Scenario, config_hash

# corpora -------------------------------------------------------------------------------------------------------------
# Corpora that users ask for: the scenarios of their runs, and the specification that makes them resumable.


DEFAULT_SPACE = "costream"


@CLOSED
@dataclass(frozen=True, kw_only=True)
class CorpusWritten(CorpusSummary):
    """The answer of `twin corpus`. card: the page that describes the corpus."""

    card: str


@dataclass(frozen=True, slots=True)
class CorpusRecipe:
    """The options of `twin corpus`, and the runs that they ask for.

    space alone: random queries, of a space by its name or in a YAML file. scenario alone: variations of one scenario.
    Both: the query of the scenario with everything else drawn from the space. replicates: number of runs, the first
    ones, that are simulated once more under another seed. horizon_s: None is the default of run settings. set_: values
    of the scenario to replace, as --set takes them.
    """

    runs: int
    seed: int
    replicates: int = 0
    space: str | None = None
    scenario: str | None = None
    horizon_s: float | None = None
    set_: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name of the scenario or the space."""
        return self.scenario or self.space or DEFAULT_SPACE

    @property
    def command(self) -> str:
        """Command line that makes the corpus."""
        options = {
            "--runs": self.runs,
            "--space": self.space,
            "--scenario": self.scenario,
            "--horizon": self.horizon_s,
            "--replicates": self.replicates or None,
            "--seed": self.seed,
        }
        given = [f"{name} {value}" for name, value in options.items() if value is not None]
        return " ".join(["twin corpus OUT", *given, *(f"--set {shlex.quote(each)}" for each in self.set_)])

    def plan(self) -> tuple[Make, CorpusSpec]:
        """Maker of the scenarios, and specification of the corpus.

        Raises BadInput if a space or scenario is unknown, or there are more replicates than runs.
        """
        if self.replicates > self.runs:
            raise BadInput(
                f"--replicates {self.replicates} is above --runs {self.runs}; a run is repeated at most once, give less"
            )
        make, spec = self._distinct()
        if not self.replicates:
            return make, spec
        settings = {**spec.settings, DISTINCT: self.runs}
        return partial(replicated, make, self.runs), replace(spec, runs=self.runs + self.replicates, settings=settings)

    def _distinct(self) -> tuple[Make, CorpusSpec]:
        runs, seed, space, horizon_s = self.runs, self.seed, self.space, self.horizon_s
        if space is not None and space_file.is_file(space):
            return self._of_file(Path(space))
        if self.scenario is None:
            if self.set_:
                raise BadInput(f"--set {self.set_[0]} changes a scenario; name one with --scenario")
            if space is not None and space in DRAWN:
                known: dict[str, Any] = {"horizon_s": horizon_s, "warmup_s": 0.0}
                make = partial(drawn, space, seed, horizon_s=horizon_s)
                return make, CorpusSpec(runs=runs, seed=seed, space=space, settings=known)
            settings = RunSettings() if horizon_s is None else _settings(RunSettings(), horizon_s)
            maker = RandomScenarios(space or DEFAULT_SPACE, seed, settings)
            return maker, CorpusSpec(runs=runs, seed=seed, space=maker.space, settings=settings.model_dump(mode="json"))
        base = set_values(scenario_file.load(self.scenario), self.set_)
        if horizon_s is not None:
            base = base.model_copy(update={"run": _settings(base.run, horizon_s)})
        if space is None:
            return around(base, runs=runs, seed=seed)
        name = f"{base.name} in {space}"
        return OneQuery(base, space, seed), CorpusSpec(runs=runs, seed=seed, space=name, settings=_around(base))

    def _of_file(self, path: Path) -> tuple[Make, CorpusSpec]:
        """Scenarios of a space that is in a file."""
        if self.scenario is not None or self.set_:
            option = f"--scenario {self.scenario}" if self.scenario is not None else f"--set {self.set_[0]}"
            raise BadInput(
                f"{option} with the space {path}: write `template: SCENARIO` and what varies into a file instead"
            )
        space, known = space_file.load(path), dict[str, Any]()
        make: Make
        if isinstance(space, JobSpace):
            base = space_file.template_of(space, path)
            settings = base.run if self.horizon_s is None else _settings(base.run, self.horizon_s)
            base = base.model_copy(update={"run": settings})
            make = VariationsOfFile(base, space.vary, space.plans, self.seed, str(path))
            known = {"template_hash": config_hash(base)}
        else:
            settings = RunSettings() if self.horizon_s is None else _settings(RunSettings(), self.horizon_s)
            make = QueriesOfFile(space, self.seed, settings)
        make(0)
        known |= settings.model_dump(mode="json")
        definition = space.model_dump(mode="json", exclude_defaults=True)
        known |= {"content": content_hash(definition), "definition": definition}
        return make, CorpusSpec(runs=self.runs, seed=self.seed, space=path.stem, settings=known)


def around(base: Scenario, *, runs: int, seed: int) -> tuple[Make, CorpusSpec]:
    """Variations of one scenario (plan, rates and hardware), and a tenth of random scenarios of the default space."""
    make = partial(among_others, ScenarioFamily(base, seed), RandomScenarios(DEFAULT_SPACE, seed, base.run))
    return make, CorpusSpec(runs=runs, seed=seed, space=f"around {base.name}", settings=_around(base))


def _around(base: Scenario) -> dict[str, Any]:
    """Settings that identify a corpus of one scenario."""
    return {"config_hash": config_hash(base), **base.run.model_dump(mode="json")}


def in_words(summary: CorpusSummary, folder: Path) -> str:
    """Line about a corpus for people."""
    new = summary.runs - summary.resumed
    text = f"{summary.runs} runs in {folder}: {new} new in {summary.wall_s:.1f} s"
    if new:
        text += f" ({summary.simulation_cpu_s / new * 1000:.0f} ms of CPU a simulation)"
    if summary.resumed:
        text += f", {summary.resumed} were there"
    return f"{text}; {summary.failed} failed" if summary.failed else text


def _settings(settings: RunSettings, horizon_s: float) -> RunSettings:
    if horizon_s <= settings.warmup_s:
        raise BadInput(f"--horizon {horizon_s:g} must be above the warm-up of {settings.warmup_s:g} s; give more")
    return settings.model_copy(update={"horizon_s": horizon_s})


# training ------------------------------------------------------------------------------------------------------------
# Trains and evaluates models for the command line and the demo: folders in, folders or tables out.


CURVE, CARD = "learning_curve.png", "card.md"
RIVALS = ("trees-ratio", "flat-log", "flat-raw", "rates")
"""Predictors (of models.predictors.PREDICTORS) that a model is compared with; all train within two minutes."""


@CLOSED
@dataclass(frozen=True, slots=True)
class EvaluationTable:
    """The answer of `twin evaluate`. rows: as Costream's Table III. part: `test` (held out of training) or `all`; runs:
    in that part that the model knows. strata: errors of the model by stratum. notes: what could not be judged, and why.
    left_out: number of the runs in that part that the model does not know. unknown: numbers of these by what it never
    saw in training; a run may have several such things."""

    rows: tuple[evaluation.ErrorRow, ...]
    part: str
    runs: int
    strata: tuple[BreakdownRow, ...] = ()
    notes: tuple[str, ...] = ()
    left_out: int = 0
    unknown: Mapping[str, int] = field(default_factory=dict)


def rows_of(folder: Path, report: Progress | None = None, reprofiled: Reprofiled | None = None) -> Dataset:
    """Reads the dataset in a folder, as models see it. Its encoding, if it took long, is kept there for the next time.

    Raises BadInput as `models.dataset.read`.
    """
    found = datasets.read(folder, report, reprofiled=reprofiled)
    if folder.is_dir() and len(found) >= PARALLEL_FROM and not encoding.path_in(folder, reprofiled).exists():
        with suppress(OSError):  # a folder that cannot be written to only costs the time again
            encoding.write(folder, found.encoded, found.config_hash, reprofiled)
    return found


def steps(members: Mapping[str, int], report: Report) -> Callable[[str, int, int, int, float], None]:
    """Function that receives the progress of training and reports steps done, of the steps of all networks, with the
    network that is trained and its latest validation loss.

    members: number of networks of each ensemble, in the order of their training.
    """
    before = dict(zip(members, itertools.accumulate(members.values(), initial=0), strict=False))

    def told(name: str, member: int, step: int, steps_each: int, loss: float) -> None:
        number, total = before[name] + member, sum(members.values())
        words = f"network {number + 1} of {total}, validation loss {loss:.3g}"
        report(number * steps_each + step, total * steps_each, words)

    return told


def networks(settings: TrainingSettings, metrics: Sequence[str]) -> dict[str, int]:
    """Number of networks of each ensemble that a training makes, by name."""
    names = ["all"] if settings.heads == "all" and len(metrics) > 1 else metrics
    return dict.fromkeys(names, settings.members)


def under_way(
    out: Path, dataset: Dataset, settings: TrainingSettings, metrics: Sequence[str], seed: int
) -> MemberCheckpoints:
    """Checkpoints that keep the networks of a training in a hidden folder beside `out` until the model is written."""
    rows = hashlib.sha256(dataset.labels_GxA.tobytes() + "".join(dataset.config_hash.tolist()).encode()).hexdigest()
    training: dict[str, Any] = {"version": VERSION, "features": FEATURE_VERSION, "rows": rows}
    training |= {"encoding": encoding.code_version(), "settings": settings.model_dump(mode="json")}
    training |= {"metrics": list(metrics), "seed": seed}
    return MemberCheckpoints(out.with_name(f".{out.name}.training"), training)


def write_model(ensembles: Sequence[Ensemble], out: Path, text: str | None = None) -> None:
    """Writes a model folder with a picture of its learning curve and, if given, its card, whole or not at all. Raises
    BadInput if it exists."""
    from figures.plans import learning_curve as drawn

    check_free(out)
    with new_folder(out) as aside:
        for ensemble in ensembles:
            save(ensemble, aside)
        (aside / CURVE).write_bytes(png(drawn(learning_curve(ensembles))))
        if text is not None:
            write_text(aside / CARD, text)


def card_of(ensembles: Sequence[Ensemble], held: Mapping[str, Dataset], name: str, about: Mapping[str, object]) -> str:
    """Text of the card of a new model: its errors on rows that it was not trained on, by the words for them, beside the
    rate model's. about: facts of the training by their names."""
    return card(LearnedCostModel(name, tuple(ensembles)), (RateModelAlone(),), held, about)


def kept_apart(dataset: Dataset, test: np.ndarray) -> Dataset:
    """Rows of a dataset that no network saw, and the second runs of these."""
    return dataset.take(np.flatnonzero(np.isin(dataset.config_hash, dataset.config_hash[test])))


def learning_curve(ensembles: Sequence[Ensemble]) -> dict[str, list[Any]]:
    """Table that `figures.plans` draws, from the manifests of the ensembles."""
    table: dict[str, list[Any]] = {"member": [], "step": [], "training_loss": [], "validation_loss": []}
    for ensemble in ensembles:
        for number, member in enumerate(ensemble.manifest["members"]):
            for step, training, validation in member["curve"]:
                table["member"].append(f"{ensemble.name} {number}")
                table["step"].append(step)
                table["training_loss"].append(training)
                table["validation_loss"].append(validation)
    return table


def predictions(model: LearnedCostModel, dataset: Dataset, metric: str) -> dict[str, list[Any]]:
    """Table that `figures.plans` draws: the test rows that have the metric."""
    rows = training_split(model, dataset).test
    simulated = dataset.label_G(metric)[rows]
    predicted = model.predict_graphs(dataset.graphs).cost(metric)[rows]
    known = ~np.isnan(simulated)
    return {"simulated": simulated[known].tolist(), "predicted": predicted[known].tolist()}


def training_split(model: LearnedCostModel, dataset: Dataset) -> RowSplit:
    """Split of the rows that the model was trained with. Raises BadInput if it was trained on another dataset."""
    manifest = model.ensembles[0].manifest
    parts = split(dataset, int(manifest["seed"]))
    sizes = {name: len(rows) for name, rows in parts._asdict().items()}
    if sizes != dict(manifest["rows"]):
        raise BadInput(
            f"model {model.name!r} was trained on a dataset of {sum(manifest['rows'].values())} rows, this one has "
            f"{len(dataset)}, so its test rows are unknown; add --all to evaluate on every row"
        )
    return parts


def evaluate(
    model: LearnedCostModel,
    dataset: Dataset,
    *,
    every_row: bool,
    seed: int,
    by_stratum: bool = False,
) -> EvaluationTable:
    """Evaluates a model and its rivals on the test rows of its own dataset, or it and the rate model on every row.

    The rivals, of METRICS alone, are trained on the same rows as the model. Rows with a kind of operator, or a word of
    one, that the model never saw in training are left out and counted.

    Raises BadInput as `training_split`, or if the model knows none of the rows.
    """
    metrics = [metric for metric in ESTIMATED if any(metric in ensemble.metrics for ensemble in model.ensembles)]
    fitted: list[Fitted] = [FittedNetworks(model.name, model)]
    if every_row:
        rows = np.arange(len(dataset))
        fitted.append(RateModelAlone())
    else:
        parts = training_split(model, dataset)
        rows = parts.test
        both = [metric for metric in metrics if metric in METRICS]
        fitted += [PREDICTORS[key].fit(dataset, parts, seed, both) for key in RIVALS]
    beyond = {name: np.intersect1d(each, rows) for name, each in model.unknown_rows(dataset.graphs).items()}
    unknown = Counter({name: len(each) for name, each in beyond.items() if len(each)})
    known = np.setdiff1d(rows, np.concatenate([np.zeros(0, np.int64), *beyond.values()]))
    if not len(known):
        raise BadInput(
            f"model {model.name!r} knows none of {len(rows)} rows: it never saw {_counted(unknown)} in training; train "
            f"it on runs that have these"
        )
    left_out, rows = len(rows) - len(known), known
    part = dataset.take(rows)
    found = [row for each in fitted for row in evaluation.evaluate(each, part) if row.metric in metrics]
    found += evaluation.replicate_rows(dataset, metrics)
    return EvaluationTable(
        rows=tuple(sorted(found, key=lambda row: metrics.index(row.metric))),
        part="all" if every_row else "test",
        runs=len(rows),
        strata=tuple(error_breakdown(fitted[0], dataset, rows)) if by_stratum else (),
        notes=(*_left_out_words(model.name, left_out, unknown), *_without_accuracy(part, metrics)),
        left_out=left_out,
        unknown=unknown,
    )


def _left_out_words(model: str, count: int, unknown: Mapping[str, int]) -> Iterator[str]:
    if count:
        yield f"{count} rows are left out, as {model} never saw in training: {_counted(unknown)}"


def _counted(numbers: Mapping[str, int]) -> str:
    """Words with the number of rows behind each, the most frequent first."""
    order = sorted(numbers.items(), key=lambda each: (-each[1], each[0]))
    return ", ".join(f"{name} ({count} rows)" for name, count in order)


def _without_accuracy(dataset: Dataset, metrics: Sequence[str]) -> Iterator[str]:
    for metric in metrics:
        truth = dataset.label_G(metric)
        if metric in BINARY_METRICS and not evaluation.has_both(truth):
            yield f"{metric} is {bool(truth[0])} in all {len(truth)} rows, so it has no accuracy; evaluate on more rows"


# fine-tuning ---------------------------------------------------------------------------------------------------------
# Fine-tunes a model on new rows: ensembles, and a table of errors before and after.


COLUMNS = {
    "metric": "metric",
    "queries": "queries",
    "rows": "runs",
    "q50_before": "median q-error before",
    "q50": "median after",
    "q95_before": "95 % before",
    "q95": "95 % after",
    "accuracy_before": "accuracy before",
    "accuracy": "accuracy after",
}
"""Headings of `Tuned.rows`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedRow(ErrorRow):
    """Errors of a fine-tuned model. queries: new or old. *_before: of the model before fine-tuning; None where it could
    not predict."""

    queries: str
    q50_before: float | None = None
    q95_before: float | None = None
    accuracy_before: float | None = None


@dataclass(frozen=True, slots=True)
class Tuned:
    """Result of fine-tuning. ensembles: the new model. rows: errors on held-out rows of the new queries, and of the old
    ones if these were given. sizes: number of rows in each part. held: rows that it was not trained on, by the words
    for them."""

    ensembles: tuple[Ensemble, ...]
    rows: tuple[TunedRow, ...]
    sizes: dict[str, int]
    held: dict[str, Dataset]


@CLOSED
@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTrained:
    """The answer of `twin train`. rows: in each part. metrics, validation_losses: null for a model that was fine-tuned;
    from, evaluation: null for others."""

    model: str
    rows: Mapping[str, int]
    metrics: tuple[str, ...] | None = None
    validation_losses: tuple[Number, ...] | None = None
    from_: Annotated[str | None, Field(alias="from")] = None
    evaluation: tuple[TunedRow, ...] | None = None


def tune(
    model: LearnedCostModel, new: Dataset, old: Dataset | None, how: FineTuning, seed: int, report: Report
) -> Tuned:
    """Fine-tunes a model on new rows, and on as many of the rows that it was trained on, if they are given.

    Raises BadInput if the new rows are too few or teach nothing, or the model was not trained on the old ones.
    """
    dataset, parts = new, split(new, seed)
    held_out = [("new", new, parts.test)]
    if old is not None:
        old_parts = training_split(model, old)
        dataset, parts = rehearsing(new, parts, old, old_parts, seed)
        held_out.append(("old", old, old_parts.test))
    members = {ensemble.name: len(ensemble.members) for ensemble in model.ensembles}
    after = LearnedCostModel(model.name, fine_tune(model.ensembles, dataset, parts, how, seed, steps(members, report)))
    rows = tuple(row for name, rows, test in held_out for row in _compared(name, rows, test, model, after))
    held = {f"{name} rows kept apart": kept_apart(of, test) for name, of, test in held_out}
    return Tuned(after.ensembles, rows, {name: len(part) for name, part in parts._asdict().items()}, held)


def _compared(
    queries: str, dataset: Dataset, test: np.ndarray, before: LearnedCostModel, after: LearnedCostModel
) -> Iterable[TunedRow]:
    """Rows of errors before and after fine-tuning. None before, if that model did not know these kinds of operators."""
    part = dataset.take(test)
    found = evaluation.evaluate(FittedNetworks(after.name, after), part)
    known = evaluation.evaluate(FittedNetworks(before.name, before), part) if before.knows(part.graphs) else None
    for number, row in enumerate(found):
        old = {f"{name}_before": getattr(known[number], name) for name in ("q50", "q95", "accuracy")} if known else {}
        yield TunedRow(**asdict(row), queries=queries, **old)
