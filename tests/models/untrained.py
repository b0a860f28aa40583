"""Untrained networks for tests in which their answers do not matter: compiling a training takes seconds."""

from __future__ import annotations

from typing import Any

import jax

from models.gnn import initial
from models.settings import TrainingSettings
from models.training import TrainedNetwork, TrainingData, train_member


def begun(data: TrainingData, settings: TrainingSettings, seed: int, start: Any = None, *more: Any) -> TrainedNetwork:
    """Replaces `train_member`: a network that is not fine-tuned stays as it begins."""
    if start is not None:
        return train_member(data, settings, seed, start, *more)
    network = settings.network.model_copy(update={"outputs": len(data.binary_M)})
    return TrainedNetwork(jax.device_get(initial(network, seed)), ((0, 1.0, 1.0),), seed)
