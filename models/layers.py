"""Configuration of a network, and the multi-layer perceptrons that it is made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from models.columns import selected
from models.features import COLUMNS, CONTEXT, FEATURE_SETS, NODE_TYPES, FeatureSet
from twin.spec import Spec

Array = jax.Array | np.ndarray
Parameters = dict[str, Any]
"""Nested mappings of arrays, as flax has them."""

Width = Annotated[int, Field(ge=1, le=4096)]


class NetworkConfig(Spec):
    """Shape of one network.

    hidden: D.  update_layers: linear layers of an encoder, an update MLP', or the head.  features: what it sees.
    outputs: M, 1 for the paper's one model a metric.  scheme: `costream` passes messages in three phases;
    `traditional` lets all neighbours, both ways, speak at once in `rounds` rounds.
    residual: MLP' computes a change of the state instead of the state.
    estimates: the head sees what the rate model says of the plan as a whole, beside the sum over the nodes.
    """

    hidden: Width = 48
    layers: Annotated[int, Field(ge=1, le=8)] = 2
    features: FeatureSet = "costs"
    outputs: Annotated[int, Field(ge=1, le=16)] = 1
    combine: Literal["concat", "sum"] = "concat"
    phase_weights: Literal["separate", "shared"] = "separate"
    residual: bool = False
    estimates: bool = False
    scheme: Literal["costream", "traditional"] = "costream"
    rounds: Annotated[int, Field(ge=1, le=32)] = 3

    @property
    def hosts(self) -> bool:
        """Whether the graph has host nodes at all."""
        return self.features != "operators"

    @property
    def context(self) -> np.ndarray:
        """Indices of the inputs of the plan as a whole that the network sees."""
        return selected(CONTEXT, FEATURE_SETS["physics"] if self.estimates else frozenset())

    def columns(self, kind: int) -> np.ndarray:
        """Indices of the inputs of a node type that the network sees."""
        return selected(COLUMNS[NODE_TYPES[kind]], FEATURE_SETS[self.features])


class MLP(nn.Module):
    """Linear layers with leaky ReLU between them, and after the last one too unless `linear_end`."""

    widths: Sequence[int]
    linear_end: bool = False

    @nn.compact
    def __call__(self, x: Array) -> jax.Array:
        h = jnp.asarray(x)
        for index, width in enumerate(self.widths):
            h = nn.Dense(width, name=f"layer_{index}")(h)
            if index < len(self.widths) - 1 or not self.linear_end:
                h = nn.leaky_relu(h)
        return h


def encoder(config: NetworkConfig) -> MLP:
    """MLP of Algorithm 1, line 2."""
    return MLP((config.hidden,) * config.layers)


def context_encoder(config: NetworkConfig) -> MLP:
    """What the head sees of the plan as a whole, beside the sum over the nodes."""
    return MLP((config.hidden,) * config.layers)


def updater(config: NetworkConfig) -> MLP:
    """MLP' of Algorithm 1, line 5. In the residual form its end is linear, so that a state can also fall."""
    return MLP((config.hidden,) * config.layers, linear_end=config.residual)


def head(config: NetworkConfig) -> MLP:
    """MLP_out of Algorithm 1, line 6."""
    return MLP((*(config.hidden,) * (config.layers - 1), config.outputs), linear_end=True)


def combined(config: NetworkConfig, inbox: jax.Array, own: jax.Array) -> jax.Array:
    """What MLP' sees of the children's sum and the node's own state."""
    return inbox + own if config.combine == "sum" else jnp.concatenate([inbox, own], axis=-1)
