"""Planners of the placement experiments, with their models. Imports JAX and LightGBM when asked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from optimizers.governor import Governor
from optimizers.interface import Optimizer
from optimizers.local_search import LocalSearch
from optimizers.sampling import Costream
from optimizers.space import Space
from papers.recipes import label, main_corpus
from papers.sizes import Sizes
from papers.training import Joined
from papers.workspace import Workspace
from scenarios.planning.planner import WithCostModel, with_proof
from twin.metrics import BINARY_METRICS, CostModel
from twin.rates.model import RateModel

if TYPE_CHECKING:
    from models.checkpoint import Ensemble
    from models.predictors import Fitted, FittedTrees

OBJECTIVE = "processing_latency_s"
NEEDED = (OBJECTIVE, *BINARY_METRICS)
"""Metrics that a choice by Costream's procedure asks a model for."""
RULED = Space(costream_rules=True)
"""Space of the plans that may be chosen."""
PROVED = 10
"""Number of best plans by a model that are simulated."""

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
    from papers.costream import rivals

    recipe = main_corpus(sizes, workspace.seed)
    fitted = (
        workspace.fitted(rivals.paper(sizes), recipe, metrics=NEEDED),  # a network a metric
        workspace.fitted(rivals.ours(sizes), recipe),  # one for all metrics, which other experiments use as well
    )
    flat = workspace.fitted(rivals.flat(), recipe, metrics=NEEDED)
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


def planners(models: Models, seed: int, candidates: int) -> dict[str, Optimizer]:
    """Planners by the name that tables show. Each may ask its model about `candidates` plans.

    seed: of the run that is planned for; simulations that prove a choice have other seeds.
    """
    rates = RateModel()
    searched = LocalSearch()
    proved = with_proof(searched, seed, PROVED)
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
    from papers.costream import rivals

    return {
        "models": [repr(rivals.paper(sizes)), repr(rivals.ours(sizes)), repr(rivals.flat()), FLAT_VERSION],
        "corpus": label(main_corpus(sizes, workspace.seed)),
        "candidates": sizes.candidates,
        "proved": PROVED,
    }
