"""Contestants and planners of Costream's experiments, with their models. Imports JAX and LightGBM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from models.checkpoint import Ensemble, read_all
from models.dataset import Dataset, RowSplit
from models.pipeline import FineTuning, fine_tune, rehearsing
from models.prediction import LearnedCostModel
from models.predictors import PREDICTORS, FittedNetworks, Networks, Predictor
from optimizers.interface import Optimizer, Problem, Solution
from optimizers.local_search import Costream, Governor, LocalSearch
from optimizers.selection import choose, estimate
from optimizers.space import Space
from papers.workspace import Joined, Sizes, Workspace, label, main_corpus
from scenarios.executing import Progress
from scenarios.learning import steps
from scenarios.planning.bench import SimulatedCostModel
from scenarios.planning.planner import WithCostModel
from twin.metrics import BINARY_METRICS, METRICS, CostModel
from twin.randomness import child_seed, random_stream
from twin.rates.model import RateModel
from twin.simulation import simulate

if TYPE_CHECKING:
    from models.predictors import Fitted, FittedTrees


# contestants ---------------------------------------------------------------------------------------------------------
# Contestants of the experiments, at an experiment's size. Imports JAX and LightGBM.


def everyone(sizes: Sizes) -> dict[str, Predictor]:
    """All contestants by key, networks with as many members and epochs as the sizes say."""
    return {name: _sized(contestant, sizes, sizes.members) for name, contestant in PREDICTORS.items()}


def generalising(sizes: Sizes) -> list[Predictor]:
    """Contestants among which extrapolations decide what is shipped; small ensembles, trained for that alone."""
    names = ("paper", "ours", "trees-log", "trees-ratio", "rates")
    return [_sized(PREDICTORS[name], sizes, sizes.restricted_members) for name in names]


def anew(sizes: Sizes, *names: str) -> list[Predictor]:
    """Contestants of these names, or all; small ensembles, trained for one experiment alone."""
    return [_sized(PREDICTORS[name], sizes, sizes.restricted_members) for name in names or PREDICTORS]


def ours(sizes: Sizes) -> Predictor:
    """Network of ours."""
    return _sized(PREDICTORS["ours"], sizes, sizes.members)


def paper(sizes: Sizes, **network: Any) -> Predictor:
    """Network of the paper; network: settings of models.settings.NetworkConfig that an ablation changes."""
    found = _sized(PREDICTORS["paper"], sizes, sizes.members)
    assert isinstance(found, Networks)
    changed = found.settings.network.model_copy(update=network)
    if changed == found.settings.network:
        return found
    name = f"{found.name}, {', '.join(f'{key} {value}' for key, value in network.items())}"
    return Networks(name, found.settings.model_copy(update={"network": changed}))


def flat() -> Predictor:
    """Flat Vector on raw labels, as in the paper."""
    return PREDICTORS["flat-raw"]


def paper_on_logs(sizes: Sizes) -> Predictor:
    """Network of the paper with regressions on log labels, which tell small costs apart as the MSLE does not."""
    found = _sized(PREDICTORS["paper"], sizes, sizes.members)
    assert isinstance(found, Networks)
    return Networks(f"{found.name}, log labels", found.settings.model_copy(update={"scale": "log"}))


def _sized(contestant: Predictor, sizes: Sizes, members: int) -> Predictor:
    if not isinstance(contestant, Networks):
        return contestant
    changes = {"members": members} | ({} if sizes.epochs is None else {"epochs": sizes.epochs})
    return Networks(contestant.name, contestant.settings.model_copy(update=changes))


# a few more rows -----------------------------------------------------------------------------------------------------
# Contestant that does not start afresh: networks trained on with a few more rows.


@dataclass(frozen=True)
class FewShot:
    """Contestant that trains networks on. name: as tables show it. trained_on: names the rows that `start` learned
    from. runs: number of new ones that it may learn from. rehearsed: the rows of `start`, if as many of them are mixed
    in."""

    name: str
    trained_on: str
    how: FineTuning
    runs: int
    rehearsal: bool
    start: tuple[Ensemble, ...] = field(repr=False)
    rehearsed: tuple[Dataset, RowSplit] | None = field(repr=False, default=None)

    def fit(
        self,
        dataset: Dataset,
        parts: RowSplit,
        seed: int,
        metrics: Sequence[str] = METRICS,
        progress: Progress | None = None,
    ) -> FittedNetworks:
        """Networks trained on from `start`, also on the test rows of this split: other runs are judged."""
        everything = random_stream(seed, "few-shot").permutation(np.concatenate(parts))[: self.runs]
        tenth = max(1, len(everything) // 10)
        parts = RowSplit(everything[tenth:], everything[:tenth], np.array([], dtype=int))
        if self.rehearsed is not None:
            dataset, parts = rehearsing(dataset, parts, *self.rehearsed, seed)
        start = [each for each in self.start if set(each.metrics) & set(metrics)]
        report = progress or (lambda _done, _total: None)
        told = steps({each.name: len(each.members) for each in start}, lambda done, total, _="": report(done, total))
        ensembles = fine_tune(start, dataset, parts, self.how, seed, told)
        return FittedNetworks(self.name, LearnedCostModel(self.name, ensembles))

    def load(self, folder: Path) -> FittedNetworks:
        """Networks that `fit` gave."""
        return FittedNetworks(self.name, LearnedCostModel(self.name, read_all(folder)))


# planners ------------------------------------------------------------------------------------------------------------
# Planners of the placement experiments, with their models. Imports JAX and LightGBM when asked.


OBJECTIVE = "processing_latency_s"
NEEDED = (OBJECTIVE, *BINARY_METRICS)
"""Metrics that a choice by Costream's procedure asks a model for."""
RULED = Space(costream_rules=True)
"""Space of the plans that may be chosen."""
PROVED = 10
"""Number of best plans by a model that are simulated."""
PROOF = 2**31
"""Number of the child seed whose children are simulated to prove a choice; far from those that judge it."""

HEURISTIC = "heuristic"
FLAT = "Flat Vector"
PAPER = "paper's GNN, random candidates"
OURS = "our GNN, random candidates"
SEARCHED = "our GNN, local search"
PROVED_OURS = f"our GNN, local search, {PROVED} simulated"
RATES = "rate model, local search"
PROVED_RATES = f"rate model, local search, {PROVED} simulated"


@dataclass(frozen=True)
class Models:
    """Learned cost models of the planners."""

    paper: CostModel
    ours: CostModel
    flat: CostModel


def learned(workspace: Workspace, sizes: Sizes) -> Models:
    """Cost models trained on the main corpus, for the metrics that a choice needs."""
    from models.prediction import LearnedCostModel
    from models.predictors import FlatCosts
    from papers.costream import planners

    recipe = main_corpus(sizes, workspace.seed)
    fitted = (
        workspace.fitted(planners.paper(sizes), recipe, metrics=NEEDED),  # a network a metric
        workspace.fitted(planners.ours(sizes), recipe),  # one for all metrics, which other experiments use as well
    )
    flat = workspace.fitted(planners.flat(), recipe, metrics=NEEDED)
    paper, ours = (LearnedCostModel(each.name, ensembles(each)).only(NEEDED) for each in fitted)
    return Models(paper, ours, FlatCosts(trees_of(flat)))


def ensembles(fitted: Fitted) -> tuple[Ensemble, ...]:
    """Networks of a fitted contestant, for whatever metrics they were trained. Raises TypeError if it has none."""
    from models.predictors import FittedNetworks

    if isinstance(fitted, Joined):
        return tuple(ensemble for part in fitted.parts for ensemble in ensembles(part))
    if not isinstance(fitted, FittedNetworks):
        raise TypeError(f"{fitted.name} is no network")
    return fitted.model.ensembles


def trees_of(fitted: Fitted) -> FittedTrees:
    """Trees of a fitted contestant, for whatever metrics they were trained. Raises TypeError if it has none."""
    from models.predictors import FittedTrees

    if isinstance(fitted, Joined):
        parts = [trees_of(part) for part in fitted.parts]
        return replace(parts[0], by_metric={name: each for part in parts for name, each in part.by_metric.items()})
    if not isinstance(fitted, FittedTrees):
        raise TypeError(f"{fitted.name} has no trees")
    return fitted


@dataclass(frozen=True, slots=True)
class Proved:
    """Optimizer whose best plans are simulated, of which the best is taken. count: of plans, >= 1. seed: of the run
    that is planned for; these runs have other seeds, and others than those that judge the choice."""

    optimizer: Optimizer
    seed: int
    count: int
    name: str = "proved"

    def solve(self, problem: Problem) -> Solution:
        """The best plan by runs. Raises BadInput as the optimizer does."""
        began_s = perf_counter()
        found = self.optimizer.solve(replace(problem, alternatives=self.count - 1))
        plans = [found.plan, *(each.plan for each in found.alternatives)]
        asked = replace(problem, cost_model=SimulatedCostModel(simulate, child_seed(self.seed, PROOF)))
        asked_of = found.evaluations + len(plans)
        return choose(asked, estimate(asked, plans), evaluations=asked_of, started_s=began_s, complete=False)


def planners(models: Models, seed: int, candidates: int) -> dict[str, Optimizer]:
    """Planners by the name that tables show. Each may ask its model about `candidates` plans.

    seed: of the run that is planned for; simulations that prove a choice have other seeds.
    """
    rates = RateModel()
    searched = LocalSearch()
    proved = Proved(searched, seed, PROVED)
    found = (
        WithCostModel(HEURISTIC, Governor(), rates, 1),
        WithCostModel(FLAT, Costream(), models.flat, candidates),
        WithCostModel(PAPER, Costream(), models.paper, candidates),
        WithCostModel(OURS, Costream(), models.ours, candidates),
        WithCostModel(SEARCHED, searched, models.ours, candidates),
        WithCostModel(PROVED_OURS, proved, models.ours, candidates),
        WithCostModel(RATES, searched, rates, candidates),
        WithCostModel(PROVED_RATES, proved, rates, candidates),
    )
    return {each.name: each for each in found}


def key_of(workspace: Workspace, sizes: Sizes) -> dict[str, object]:
    """Key of everything about the planners that decides what they choose."""
    from models.vectors import FLAT_VERSION
    from papers.costream import planners

    return {
        "models": [repr(planners.paper(sizes)), repr(planners.ours(sizes)), repr(planners.flat()), FLAT_VERSION],
        "corpus": label(main_corpus(sizes, workspace.seed)),
        "candidates": sizes.candidates,
        "proved": PROVED,
    }
