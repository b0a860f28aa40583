"""The Flat Vector baseline (Costream, Section VII): a fixed-length vector of a query, and gradient-boosted trees.

As in the authors' code the vector knows the query and its rates, not the placement: counts of the operator kinds,
mean selectivities, mean event rate. They train on raw labels; on log labels the same trees are far better, so both are
reported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import lightgbm
import numpy as np

from models.facts import OperatorFacts
from models.labels import LABEL_FLOOR, LOG_LIMIT
from twin.metrics import BINARY_METRICS
from twin.query import KINDS

FLAT_NAMES: tuple[str, ...] = (
    *(f"{kind}s" for kind in KINDS),
    "mean_filter_selectivity",
    "mean_join_selectivity",
    "mean_aggregate_selectivity",
    "mean_event_rate_per_s",
)
"""The entries of the vector."""

LabelScale = Literal["raw", "log"]
_TREES = {"objective": "regression", "num_leaves": 31, "learning_rate": 0.05, "verbosity": -1, "deterministic": True}
_ROUNDS, _PATIENCE = 1000, 100


def flat_vector(facts: Sequence[OperatorFacts]) -> list[float]:
    """The vector of a query, in the order of FLAT_NAMES. A mean over nothing is NaN, which LightGBM knows."""
    by_kind = {kind: [each for each in facts if each.spec.kind == kind] for kind in KINDS}

    def mean(values: Sequence[float]) -> float:
        return sum(values) / len(values) if values else float("nan")

    return [
        *(float(len(by_kind[kind])) for kind in KINDS),
        *(mean([each.selectivity for each in by_kind[kind]]) for kind in ("filter", "join", "aggregate")),
        mean([each.rates.in_per_s for each in by_kind["source"]]),
    ]


@dataclass(frozen=True)
class FlatVectorModel:
    """Trees for one metric; `scale` is that of the labels they were trained on."""

    metric: str
    scale: LabelScale
    booster: lightgbm.Booster

    def predict(self, flat_GxF: np.ndarray) -> np.ndarray:
        """[G] costs, or probabilities of a binary metric."""
        raw = np.asarray(self.booster.predict(flat_GxF, num_threads=1))
        if self.metric in BINARY_METRICS:
            return raw
        cost = np.exp(np.clip(raw, -LOG_LIMIT, LOG_LIMIT)) if self.scale == "log" else raw
        return np.maximum(cost, LABEL_FLOOR)


def train_flat_vector(
    metric: str,
    scale: LabelScale,
    train: tuple[np.ndarray, np.ndarray],
    valid: tuple[np.ndarray, np.ndarray],
    seed: int = 0,
) -> FlatVectorModel:
    """Boosted trees on (flat_GxF, label_G), early-stopped on `valid`; binary classes weigh the same in total.

    Rows without a label (NaN) are left out.
    """
    yes_no = metric in BINARY_METRICS
    forward: Callable[[np.ndarray], np.ndarray] = np.asarray
    if scale == "log" and not yes_no:
        forward = _log
    sets = [lightgbm.Dataset(x[~np.isnan(y)], forward(y[~np.isnan(y)])) for x, y in (train, valid)]
    options = {**_TREES, "seed": seed % 2**31, "num_threads": 1}
    if yes_no:
        options |= {"objective": "binary", "is_unbalance": True}
    stop = lightgbm.early_stopping(_PATIENCE, verbose=False)
    booster = lightgbm.train(options, sets[0], _ROUNDS, valid_sets=[sets[1]], callbacks=[stop])
    return FlatVectorModel(metric, scale, booster)


def _log(values: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(values, LABEL_FLOOR))
