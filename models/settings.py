"""Settings of networks and of their training, and recipes: the paper's, the shipped model's, one with more physics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from models.features import CONTEXT, FEATURE_SETS, FEATURES, NODE_TYPES, FeatureSet, Group, selected
from models.labels import LabelScale
from twin.errors import BadInput, suggest
from twin.spec import Spec

Width = Annotated[int, Field(ge=1, le=4096)]


class NetworkConfig(Spec):
    """Shape of one network.

    hidden: D.  layers: linear layers of an encoder, an update MLP', or the head.  features: those that it sees.
    outputs: M, 1 for the paper's one model a metric.  scheme: `costream` passes messages in three phases;
    `traditional` lets all neighbours, both ways, speak at once in `rounds` rounds.
    residual: MLP' computes a change of the state instead of the state.
    estimates: the head sees the rate model's answers for the plan as a whole, beside the readout.
    readout: the head sees the `sum` over all nodes, as in Costream, or the `mean`, which does not grow with the job.
    """

    hidden: Width = 48
    layers: Annotated[int, Field(ge=1, le=8)] = 2
    features: FeatureSet = "costs"
    outputs: Annotated[int, Field(ge=1, le=64)] = 1
    combine: Literal["concat", "sum"] = "concat"
    phase_weights: Literal["separate", "shared"] = "separate"
    residual: bool = False
    estimates: bool = False
    readout: Literal["sum", "mean"] = "sum"
    scheme: Literal["costream", "traditional"] = "costream"
    rounds: Annotated[int, Field(ge=1, le=32)] = 3

    @property
    def hosts(self) -> bool:
        """Whether the graph has host nodes."""
        return self.features != "operators"

    @property
    def context(self) -> np.ndarray:
        """Indices of the inputs of the plan as a whole that the network sees."""
        return selected(
            CONTEXT, FEATURE_SETS["physics"] | FEATURE_SETS[self.features] if self.estimates else frozenset()
        )

    def sees(self, group: Group) -> bool:
        """Whether the network sees the features of a group at nodes."""
        return group in FEATURE_SETS[self.features]

    def columns(self, kind: int) -> np.ndarray:
        """Indices of the inputs of a node type that the network sees."""
        return selected(FEATURES[NODE_TYPES[kind]], FEATURE_SETS[self.features])


class TrainingSettings(Spec):
    """Settings of the training of networks.

    epochs: absent: as many as make 40 steps times the square root of the training rows.
    patience: stop after so many evaluations without a better one.
    heads: `one` network a metric, as Costream; `all`: one network for all metrics, which trains a fifth as long.
    scale: on which regressions are learned (models.labels).  huber: beyond so many standard deviations of the label
    the loss of regressions grows linearly; absent: never.
    """

    members: Annotated[int, Field(ge=1, le=100)] = 3
    epochs: Annotated[int | None, Field(ge=1, le=10**6)] = None
    batch: Annotated[int, Field(ge=1, le=65536)] = 128
    rate: Annotated[float, Field(gt=0, le=1, description="highest learning rate")] = 2e-3
    warmup: Annotated[float, Field(ge=0, lt=1, description="share of the steps")] = 0.1
    weight_decay: Annotated[float, Field(ge=0, le=10)] = 0.5
    clip: Annotated[float, Field(gt=0, description="global norm of the gradient")] = 1.0
    patience: Annotated[int, Field(ge=1)] = 20
    heads: Literal["one", "all"] = "all"
    scale: LabelScale = "log"
    huber: Annotated[float | None, Field(gt=0)] = None
    network: NetworkConfig = NetworkConfig()


PAPER = TrainingSettings(
    heads="one",
    scale="log1p",
    network=NetworkConfig(hidden=128, features="table1", combine="concat", phase_weights="shared"),
)
"""Costream as published: Table I, Algorithm 1 with one MLP' a node type, a network a metric, the MSLE."""

OURS = TrainingSettings(
    scale="ratio",
    huber=0.3,
    network=NetworkConfig(hidden=64, features="costs", estimates=True, residual=True),
)
"""Costream's joint graph with propagated rates and costs; the rate model's estimates beside the readout, and
regressions as ratios to them; one network for all metrics."""

PHYSICS = OURS.model_copy(update={"network": OURS.network.model_copy(update={"features": "physics"})})
"""OURS with the rate model's predictions at every operator and host. No more exact, and far slower in scoring."""

RESIDUAL = OURS.model_copy(
    update={"scale": "residual", "huber": 0.2, "network": OURS.network.model_copy(update={"hidden": 48})}
)
"""OURS as a correction of the rate model that begins at none, is held back where it does not help, and leaves
probabilities as frequent as in the corpus."""

COMPOSED = RESIDUAL.model_copy(
    update={"network": RESIDUAL.network.model_copy(update={"features": "composed", "readout": "mean"})}
)
"""RESIDUAL that sees what composes, with a readout that does not grow with the job."""

PRESETS: Mapping[str, TrainingSettings] = {
    "ours": OURS,
    "residual": RESIDUAL,
    "composed": COMPOSED,
    "physics": PHYSICS,
    "paper": PAPER,
}


def preset(name: str) -> TrainingSettings:
    """Settings of that name. Raises BadInput for an unknown one."""
    if name not in PRESETS:
        raise BadInput(f"unknown preset {name!r}; {suggest(name, PRESETS)}")
    return PRESETS[name]
