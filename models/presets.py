"""Two recipes for one model: the paper's, and the one that is shipped."""

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
    network=NetworkConfig(hidden=64, features="physics", residual=True),
)
"""The same joint graph with physics in it, and regressions as ratios to the rate model; one network for all metrics."""

PRESETS: Mapping[str, TrainingSettings] = {"ours": OURS, "paper": PAPER}


def preset(name: str) -> TrainingSettings:
    """The settings of that name. Raises BadInput for an unknown one."""
    if name not in PRESETS:
        raise BadInput(f"unknown preset {name!r}; {suggest(name, PRESETS)}")
    return PRESETS[name]
