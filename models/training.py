"""Training of networks: the loop around the pure step, and what an interrupted training keeps."""

from __future__ import annotations

import itertools
import json
import math
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import serialization

from models.gnn import (
    Array,
    Batch,
    Capacity,
    CostNetwork,
    Parameters,
    batch_of,
    capacity_for,
    cut,
    initial,
    needs,
    silent,
)
from models.graph import GraphTable
from models.labels import Targets
from models.settings import NetworkConfig, TrainingSettings
from twin.files import signed, verified, write_bytes
from twin.randomness import random_stream

# training ------------------------------------------------------------------------------------------------------------
# Training of one network: the loop around the pure step, early stopping, and the learning curve.
#
# Everything random comes from the member's seed: same data, settings and seed, same parameters.


EVALUATE_EVERY = 20  # steps, at least; else small data would be evaluated more than trained on
STEPS_PER_ROOT_ROW = 40


class CurvePoint(NamedTuple):
    """Point of the learning curve. train_loss: mean since the last point; valid_loss: `evaluation_loss`."""

    step: int
    train_loss: float
    valid_loss: float


@dataclass(frozen=True)
class TrainingData:
    """Graphs with targets, and the rows for training and validation. binary_M: which metrics are yes or no."""

    graphs: GraphTable
    targets: Targets
    binary_M: np.ndarray
    train: np.ndarray
    valid: np.ndarray


@dataclass(frozen=True)
class TrainedNetwork:
    """Parameters with the best validation loss, with their learning curve and seed."""

    parameters: Parameters
    curve: tuple[CurvePoint, ...]
    seed: int


Progress = Callable[[int, int, float], None]
"""Reports step, steps in all, and the latest validation loss."""


def train_member(
    data: TrainingData,
    settings: TrainingSettings,
    seed: int,
    start: Parameters | None = None,
    progress: Progress | None = None,
) -> TrainedNetwork:
    """Trains one network. `start`: parameters to go on from (fine-tuning) instead of fresh ones; they are also the
    result if no later ones have a lower validation loss. So are fresh ones that repeat the rate model (scale
    `residual`).

    Raises FloatingPointError if the loss is not finite, naming the step.
    """
    loop = _Loop(data, settings)
    if start is None and settings.scale == "residual":
        start = silent(initial(loop.config, seed))
    state = loop.begin(initial(loop.config, seed) if start is None else start)
    best, best_loss, curve = jax.device_get(state.parameters), math.inf, list[CurvePoint]()
    if start is not None:
        best_loss = loop.validation_loss(state.parameters)
    waited, recent = 0, list[jax.Array]()
    for step, example in enumerate(loop.shuffled(seed), start=1):
        state, value = loop.step(state, example, step)
        recent.append(value)
        if len(recent) < loop.interval and step < loop.steps:
            continue
        point = loop.evaluate(step, recent, state.parameters)
        curve.append(point)
        recent, waited = [], waited + 1
        if point.valid_loss < best_loss:
            best, best_loss, waited = jax.device_get(state.parameters), point.valid_loss, 0
        if progress is not None:
            progress(step, loop.steps, point.valid_loss)
        if waited >= settings.patience:
            break
    return TrainedNetwork(best, tuple(curve), seed)


class _Loop:
    """Data, batches and settings of one training, which stay the same over its steps."""

    def __init__(self, data: TrainingData, settings: TrainingSettings) -> None:
        self.data, self.settings = data, settings
        self.config = settings.network.model_copy(update={"outputs": len(data.binary_M)})
        self.needs = needs(data.graphs)
        self.capacity = capacity_for(data.graphs, min(settings.batch, len(data.train)), self.needs)
        self.pass_steps = math.ceil(len(data.train) / self.capacity.graphs)
        by_rows = round(STEPS_PER_ROOT_ROW * math.sqrt(len(data.train)))
        self.steps = by_rows if settings.epochs is None else settings.epochs * self.pass_steps
        self.interval = min(self.steps, max(EVALUATE_EVERY, self.pass_steps))
        self.rates = learning_rates(settings, self.steps)
        self.valid = list(self._examples(data.valid))

    def begin(self, parameters: Parameters) -> TrainState:
        """State before the first step. The parameters are copied: a step donates its state's memory."""
        own = jax.tree.map(lambda leaf: jnp.array(leaf, copy=True), parameters)
        return TrainState(own, adamw(self.settings.clip, self.settings.weight_decay, 0.0).init(own))

    def shuffled(self, seed: int) -> Iterator[Example]:
        """Yields a batch for each step, in passes over the training rows, each in a new order."""
        order = random_stream(seed, "shuffle")
        passes = (self._examples(order.permutation(self.data.train)) for _ in itertools.count())
        return itertools.islice(itertools.chain.from_iterable(passes), self.steps)

    def _examples(self, rows: np.ndarray) -> Iterator[Example]:
        """Yields the rows in that order, in batches."""
        for graphs in cut(self.needs, rows, self.capacity):
            values, weights, offsets = np.zeros((3, self.capacity.graphs, len(self.data.binary_M)), np.float32)
            values[: len(graphs)] = self.data.targets.values_GxM[graphs]
            weights[: len(graphs)] = self.data.targets.weights_GxM[graphs]
            offsets[: len(graphs)] = self.data.targets.offsets_GxM[graphs]
            batch = batch_of(self.data.graphs, graphs, self.capacity)
            yield Example(batch, values, weights, offsets, np.array(len(graphs), np.float32))

    def step(self, state: TrainState, example: Example, step: int) -> tuple[TrainState, jax.Array]:
        return train_step(
            state,
            example,
            self.data.binary_M,
            self.rates[step - 1],
            config=self.config,
            capacity=self.capacity,
            clip=self.settings.clip,
            weight_decay=self.settings.weight_decay,
            huber=self.settings.huber,
        )

    def evaluate(self, step: int, recent: list[jax.Array], parameters: Parameters) -> CurvePoint:
        train_loss = float(np.mean(jax.device_get(recent)))
        valid_loss = self.validation_loss(parameters)
        for name, value in (("training", train_loss), ("validation", valid_loss)):
            if not math.isfinite(value):
                raise FloatingPointError(f"{name} loss is {value} at step {step}; lower the learning rate")
        return CurvePoint(step, train_loss, valid_loss)

    def validation_loss(self, parameters: Parameters) -> float:
        losses = [
            evaluation_loss(
                parameters,
                example,
                self.data.binary_M,
                config=self.config,
                capacity=self.capacity,
                huber=self.settings.huber,
            )
            for example in self.valid
        ]
        return float(sum(jax.device_get(losses))) / len(self.data.valid)


class TrainState(NamedTuple):
    """State that a step changes: parameters and the optimiser's memory."""

    parameters: Parameters
    updater: optax.OptState


class Example(NamedTuple):
    """Batch with its targets; rows beyond the batch's graphs have weight 0. offsets_GxM: added to the outputs."""

    batch: Batch
    values_GxM: np.ndarray
    weights_GxM: np.ndarray
    offsets_GxM: np.ndarray
    graphs: np.ndarray


def adamw(clip: float, weight_decay: float, rate: jax.Array | float) -> optax.GradientTransformation:
    """AdamW with clipping; biases do not decay. rate: of one step; a schedule inside would be compiled for each length
    of training."""
    matrices = partial(jax.tree.map, lambda leaf: leaf.ndim > 1)
    return optax.chain(optax.clip_by_global_norm(clip), optax.adamw(rate, weight_decay=weight_decay, mask=matrices))


def learning_rates(settings: TrainingSettings, steps: int) -> np.ndarray:
    """[steps] Learning rates: linear warm-up, then a cosine down to zero."""
    warm = max(1, round(settings.warmup * steps))
    rise = optax.linear_schedule(settings.rate / warm, settings.rate, warm - 1)
    fall = optax.cosine_decay_schedule(settings.rate, max(1, steps - warm))
    return np.asarray(optax.join_schedules([rise, fall], [warm])(jnp.arange(steps)))


def predictions(config: NetworkConfig, capacity: Capacity, parameters: Parameters, example: Example) -> jax.Array:
    """[G, M] network outputs, offsets included."""
    outputs_GxM = jnp.asarray(CostNetwork(config, capacity).apply({"params": parameters}, example.batch))
    return outputs_GxM + example.offsets_GxM


def regression_loss(estimates: Array, truth: Array, huber: float | None) -> jax.Array:
    """Squared error; beyond `huber`, if given, it grows linearly."""
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
    state: TrainState,
    example: Example,
    binary_M: jax.Array,
    rate: jax.Array,
    *,
    config: NetworkConfig,
    capacity: Capacity,
    clip: float,
    weight_decay: float,
    huber: float | None,
) -> tuple[TrainState, jax.Array]:
    """Updates the state by one batch; also returns the mean loss of the batch before that."""

    def mean_loss(parameters: Parameters) -> jax.Array:
        return loss(config, capacity, parameters, example, binary_M, huber) / example.graphs

    value, gradient = jax.value_and_grad(mean_loss)(state.parameters)
    change, memory = adamw(clip, weight_decay, rate).update(gradient, state.updater, state.parameters)
    return TrainState(optax.apply_updates(state.parameters, change), memory), value


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
    """Weighted loss of `validation_errors`, summed over the batch's graphs and averaged over the metrics."""
    outputs_GxM = predictions(config, capacity, parameters, example)
    errors_GxM = validation_errors(outputs_GxM, example.values_GxM, binary_M, huber)
    return (errors_GxM * example.weights_GxM).sum() / config.outputs


def validation_errors(outputs_GxM: Array, values_GxM: Array, binary_M: Array, huber: float | None) -> jax.Array:
    """[G, M] errors: of regressions as in training; of yes-or-no metrics the squared error of the probability (Brier,
    1950), which is proper and bounded: a network that grows overconfident on a few rows must not hide that its other
    predictions still improve. `huber` is not for these: a linear error is least if all are called the likelier
    class."""
    errors_GxM = regression_loss(outputs_GxM, values_GxM, huber)
    return jnp.where(binary_M, jnp.square(jax.nn.sigmoid(outputs_GxM) - values_GxM), errors_GxM)


# interrupted trainings -----------------------------------------------------------------------------------------------
# Keeps each network of a training under way once it is trained, so that an interrupted training can go on.


TRAINING, SUFFIX = "training.json", ".msgpack"
_WHAT = b"streamtwin network"


@dataclass(frozen=True)
class MemberCheckpoints:
    """Networks kept in a file each; a `models.pipeline.Keep`.

    folder: made when there is a network to keep. training: in plain values, everything that decides the networks;
    networks of another training are not used, and are deleted with the first network of this one.
    """

    folder: Path
    training: Mapping[str, Any]

    def __len__(self) -> int:
        return len(list(self.folder.glob(f"*{SUFFIX}"))) if self._ours else 0

    def __call__(self, name: str, index: int, train: Callable[[], TrainedNetwork]) -> TrainedNetwork:
        """Network that is kept and whole, or else the one that `train` makes."""
        path = self.folder / f"{name}-{index}{SUFFIX}"
        kept = _read(path) if self._ours and path.exists() else None
        if kept is not None:
            return kept
        member = train()
        if not self._ours:
            self.discard()
            self.folder.mkdir(parents=True)
            (self.folder / TRAINING).write_text(self._text)
        _write(path, member)
        return member

    def discard(self) -> None:
        """Deletes the networks, once the model is written."""
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def _text(self) -> str:
        return json.dumps(self.training, sort_keys=True)

    @property
    def _ours(self) -> bool:
        path = self.folder / TRAINING
        return path.exists() and path.read_bytes() == self._text.encode()


def _read(path: Path) -> TrainedNetwork | None:
    """Reads a network; None if the file is damaged."""
    try:
        body = serialization.msgpack_restore(verified(path.read_bytes(), _WHAT))
        curve = tuple(CurvePoint(int(step), training, validation) for step, training, validation in body["curve"])
        return TrainedNetwork(body["parameters"], curve, int(body["seed"]))
    except (ValueError, TypeError, KeyError):
        return None


def _write(path: Path, member: TrainedNetwork) -> None:
    """Writes a network, whole or not at all."""
    body = {"parameters": member.parameters, "curve": [list(each) for each in member.curve], "seed": str(member.seed)}
    write_bytes(path, signed(serialization.msgpack_serialize(body), _WHAT))
