"""Gradient-boosted trees (LightGBM) over vectors: trained, applied, and written as one file a metric."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import lightgbm
import numpy as np
from pydantic import Field

from models.checkpoint import Coverage
from models.labels import LABEL_FLOOR, log_costs, on_scale, require_learnable
from twin.errors import BadInput
from twin.files import stamped, unstamped, write_text
from twin.metrics import BINARY_METRICS
from twin.randomness import child_seed
from twin.spec import Spec

TreeScale = Literal["raw", "log", "ratio"]
"""Scale that trees of a regression learn: the label itself, or a scale of `models.labels`. Binary metrics have none."""

SUFFIX = ".trees.json"
_FORMAT = "streamtwin trees 1"


class TreeSettings(Spec):
    """Settings of the growth of trees.

    rounds, patience: most trees, and most without a better validation loss.
    rows, columns: random shares of these that a tree sees.  members: seeds, averaged.
    """

    leaves: Annotated[int, Field(ge=2, le=4096)] = 31
    rate: Annotated[float, Field(gt=0, le=1)] = 0.05
    leaf_rows: Annotated[int, Field(ge=1)] = 20
    rounds: Annotated[int, Field(ge=1, le=10**5)] = 1000
    patience: Annotated[int, Field(ge=1)] = 100
    rows: Annotated[float, Field(gt=0, le=1)] = 1.0
    columns: Annotated[float, Field(gt=0, le=1)] = 1.0
    members: Annotated[int, Field(ge=1, le=100)] = 1


class TreeRows(NamedTuple):
    """Rows of one metric. x_NxF: vectors. label_N: NaN where there is none. rates_N: the rate model's answer."""

    x_NxF: np.ndarray
    label_N: np.ndarray
    rates_N: np.ndarray

    def known(self) -> TreeRows:
        """Rows that have a label."""
        return TreeRows(*(array[~np.isnan(self.label_N)] for array in self))


@dataclass(frozen=True)
class Trees:
    """Ensemble of trees for one metric. scale: on which a regression was trained."""

    metric: str
    scale: TreeScale
    boosters: tuple[lightgbm.Booster, ...]

    def predict(self, x_NxF: np.ndarray, rates_N: np.ndarray) -> np.ndarray:
        """[N] costs, or probabilities of a binary metric: the members' mean (of costs: in the scale learned)."""
        mean = np.mean([np.asarray(each.predict(x_NxF, num_threads=1)) for each in self.boosters], axis=0)
        if self.metric in BINARY_METRICS:
            return np.asarray(mean)
        cost_N = mean if self.scale == "raw" else np.exp(log_costs(mean, rates_N, self.scale))
        return np.maximum(cost_N, LABEL_FLOOR)


def train_trees(
    metric: str, scale: TreeScale, train: TreeRows, valid: TreeRows, settings: TreeSettings, seed: int = 0
) -> Trees:
    """Trains trees for one metric, early-stopped on `valid`; binary classes weigh the same in total.

    Rows without a label are left out. Raises BadInput if that leaves none, or a binary metric has one class only.
    """
    train, valid = train.known(), valid.known()
    require_learnable(metric, train.label_N, "training")
    if not len(valid.label_N):
        raise BadInput(f"{metric} has no label in the validation rows: no run succeeded; simulate other scenarios")
    yes_no = metric in BINARY_METRICS
    options = {**_options(settings), "objective": "binary" if yes_no else "l2"}
    share = float(train.label_N.mean()) if yes_no else 0.5
    boosters = []
    for member in range(settings.members):
        sets = [_balanced(part, share) if yes_no else _regression(part, scale) for part in (train, valid)]
        stop = lightgbm.early_stopping(settings.patience, verbose=False)
        seeded = {**options, "seed": child_seed(seed, member) % 2**31}
        boosters.append(lightgbm.train(seeded, sets[0], settings.rounds, valid_sets=[sets[1]], callbacks=[stop]))
    return Trees(metric, scale, tuple(boosters))


def _balanced(rows: TreeRows, share: float) -> lightgbm.Dataset:
    """Rows with weights that make both classes equal, also for early stopping. share: of yes in training rows."""
    return lightgbm.Dataset(
        rows.x_NxF, rows.label_N, weight=np.where(rows.label_N > 0.5, 0.5 / share, 0.5 / (1 - share))
    )


def _regression(rows: TreeRows, scale: TreeScale) -> lightgbm.Dataset:
    return lightgbm.Dataset(rows.x_NxF, _learned(rows, scale))


def _options(settings: TreeSettings) -> dict[str, Any]:
    return {
        "num_leaves": settings.leaves,
        "learning_rate": settings.rate,
        "min_data_in_leaf": settings.leaf_rows,
        "bagging_fraction": settings.rows,
        "bagging_freq": int(settings.rows < 1),
        "feature_fraction": settings.columns,
        "num_threads": 1,
        "deterministic": True,
        "force_row_wise": True,
        "verbosity": -1,
    }


def _learned(rows: TreeRows, scale: TreeScale) -> np.ndarray:
    return rows.label_N if scale == "raw" else on_scale(rows.label_N, rows.rates_N, scale)


def save(trees: Trees, folder: Path, features: str, seen: Coverage) -> None:
    """Writes FOLDER/METRIC.trees.json, whole or not at all.

    features: version of the vector they were trained on. seen: coverage of the training rows.
    """
    members = [each.model_to_string() for each in trees.boosters]
    body = {"format": _FORMAT, "features": features, "seen": dict(seen)}
    body |= {"metric": trees.metric, "scale": trees.scale, "members": members}
    write_text(folder / f"{trees.metric}{SUFFIX}", stamped(body))


def load(path: Path, features: str) -> tuple[Trees, Coverage]:
    """Reads one ensemble, and the coverage of its training rows.

    Raises BadInput if the file is damaged, or made for another version of the vector.
    """
    corrupt = f"{path} holds no trees, or is damaged; remove it and train again"
    try:
        body = unstamped(path.read_text())
        version, seen, metric = body["features"], body["seen"], body["metric"]
        scale, members = body["scale"], body["members"]
        boosters = tuple(lightgbm.Booster(model_str=text) for text in members) if body["format"] == _FORMAT else ()
    except (OSError, ValueError, KeyError, TypeError, lightgbm.basic.LightGBMError) as error:
        raise BadInput(f"{corrupt} ({type(error).__name__})") from None
    if version != features:
        raise BadInput(
            f"{path} was trained on features {version}, this version computes {features}; remove it and train again"
        )
    if not boosters:
        raise BadInput(corrupt)
    return Trees(metric, scale, boosters), seen
