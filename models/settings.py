"""How a network is trained: settings, and the learning rate over the steps."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field

from models.labels import LabelScale
from models.layers import NetworkConfig
from twin.spec import Spec


class TrainingSettings(Spec):
    """How a network is trained.

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


def learning_rate(settings: TrainingSettings, step: int, steps: int) -> float:
    """Linear warm-up, then a cosine down to zero."""
    warm = max(1, round(settings.warmup * steps))
    if step < warm:
        return settings.rate * (step + 1) / warm
    return settings.rate * 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, steps - warm)))
