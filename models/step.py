"""One step of training, and the loss, as pure functions."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from models.batch import Batch
from models.capacity import Capacity
from models.gnn import CostNetwork
from models.layers import Array, NetworkConfig, Parameters


class State(NamedTuple):
    """What a step changes."""

    parameters: Parameters
    updater: optax.OptState


class Example(NamedTuple):
    """One batch with its targets; rows beyond the batch's graphs have weight 0. offsets_GxM: added to the outputs.
    graphs: how many there are."""

    batch: Batch
    values_GxM: np.ndarray
    weights_GxM: np.ndarray
    offsets_GxM: np.ndarray
    graphs: np.ndarray


def adamw(clip: float, weight_decay: float) -> optax.GradientTransformation:
    """AdamW with clipping; biases do not decay. The learning rate, which changes each step, is applied by the step."""
    decay = optax.add_decayed_weights(weight_decay, mask=partial(jax.tree.map, lambda leaf: leaf.ndim > 1))
    return optax.chain(optax.clip_by_global_norm(clip), optax.scale_by_adam(), decay)


def predictions(config: NetworkConfig, capacity: Capacity, parameters: Parameters, example: Example) -> jax.Array:
    """[G, M] network outputs, offsets included."""
    outputs_GxM = jnp.asarray(CostNetwork(config, capacity).apply({"params": parameters}, example.batch))
    return outputs_GxM + example.offsets_GxM


def regression_loss(estimates: Array, truth: Array, huber: float | None) -> jax.Array:
    """The squared error; beyond `huber`, if that is given, it goes on growing linearly."""
    if huber is None:
        return jnp.square(jnp.asarray(estimates) - truth)
    return 2 * optax.huber_loss(jnp.asarray(estimates), jnp.asarray(truth), delta=huber)


def loss(
    config: NetworkConfig,
    capacity: Capacity,
    parameters: Parameters,
    example: Example,
    binary_M: jax.Array,
    huber: float | None,
) -> jax.Array:
    """Weighted loss summed over the batch's graphs and averaged over the metrics."""
    outputs_GxM = predictions(config, capacity, parameters, example)
    errors = regression_loss(outputs_GxM, example.values_GxM, huber)
    entropy = optax.sigmoid_binary_cross_entropy(outputs_GxM, example.values_GxM)
    return (jnp.where(binary_M, entropy, errors) * example.weights_GxM).sum() / config.outputs


@partial(jax.jit, static_argnames=("config", "capacity", "clip", "weight_decay", "huber"), donate_argnames=("state",))
def train_step(
    state: State,
    example: Example,
    binary_M: jax.Array,
    rate: jax.Array,
    *,
    config: NetworkConfig,
    capacity: Capacity,
    clip: float,
    weight_decay: float,
    huber: float | None,
) -> tuple[State, jax.Array]:
    """One update; returns the mean loss of the batch before it."""

    def mean_loss(parameters: Parameters) -> jax.Array:
        return loss(config, capacity, parameters, example, binary_M, huber) / example.graphs

    value, gradient = jax.value_and_grad(mean_loss)(state.parameters)
    change, memory = adamw(clip, weight_decay).update(gradient, state.updater, state.parameters)
    parameters = jax.tree.map(lambda leaf, step: leaf - rate * step, state.parameters, change)
    return State(parameters, memory), value


@partial(jax.jit, static_argnames=("config", "capacity", "huber"))
def evaluation_loss(
    parameters: Parameters,
    example: Example,
    binary_M: jax.Array,
    *,
    config: NetworkConfig,
    capacity: Capacity,
    huber: float | None,
) -> jax.Array:
    """As `loss`, but yes-or-no metrics count by squared error of the probability: a network that grows overconfident on
    a few rows must not hide that its other predictions still improve."""
    outputs_GxM = predictions(config, capacity, parameters, example)
    estimates_GxM = jnp.where(binary_M, jax.nn.sigmoid(outputs_GxM), outputs_GxM)
    losses_GxM = regression_loss(estimates_GxM, example.values_GxM, huber)
    return (losses_GxM * example.weights_GxM).sum() / config.outputs
