"""Recipes for one model: the paper's, the one that is shipped, and one with more physics in it."""

from __future__ import annotations

from collections.abc import Mapping

from models.layers import NetworkConfig
from models.settings import TrainingSettings
from twin.errors import BadInput, suggest

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
"""The same joint graph with propagated rates and costs; the rate model's estimates beside the readout, and regressions
as ratios to them; one network for all metrics."""

PHYSICS = OURS.model_copy(update={"network": OURS.network.model_copy(update={"features": "physics"})})
"""And what the rate model finds at every operator and host. It is no more exact, and scores plans far more slowly."""

RESIDUAL = OURS.model_copy(
    update={"scale": "residual", "huber": 0.05, "network": OURS.network.model_copy(update={"hidden": 48})}
)
"""As ours, but a correction of the rate model that begins at none, is held back where it does not help, and leaves
probabilities as frequent as in the corpus: the one that is shipped."""

PRESETS: Mapping[str, TrainingSettings] = {"ours": OURS, "residual": RESIDUAL, "physics": PHYSICS, "paper": PAPER}


def preset(name: str) -> TrainingSettings:
    """The settings of that name. Raises BadInput for an unknown one."""
    if name not in PRESETS:
        raise BadInput(f"unknown preset {name!r}; {suggest(name, PRESETS)}")
    return PRESETS[name]
