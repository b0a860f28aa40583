"""Checkpoint of an ensemble in one file: msgpack of weights, network config, label scaling, features and manifest.

The first line is a checksum over the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
from flax import serialization
from pydantic import ConfigDict, Field, TypeAdapter, model_validator

from models.coverage import Coverage
from models.features import FEATURE_VERSION
from models.gnn import Parameters, shapes
from models.labels import KINDS, Scaling
from models.scoring import Weights
from models.settings import NetworkConfig
from twin.atomic import write_bytes
from twin.checksums import signed, verified
from twin.errors import BadInput
from twin.metrics import METRICS
from twin.spec import Spec, parse


class CurveBody(Spec):
    """Learning curve of one network: step, training loss, validation loss."""

    model_config = ConfigDict(extra="allow")

    seed: int
    curve: tuple[tuple[float, float, float], ...]


class ManifestBody(Spec):
    """Entries of a manifest that are read; some are missing if an ensemble was not made by training.

    yes: by binary metric, the share of the training rows that are yes, if its probabilities are for such rows.
    """

    model_config = ConfigDict(extra="allow")

    seen: dict[str, int]
    demands: tuple[str, ...] = ()
    seed: int = 0
    horizon_s: Annotated[float, Field(gt=0)] = 1.0
    horizons_s: tuple[Annotated[float, Field(gt=0)], ...] = ()
    ranges: Mapping[str, tuple[float, float]] = Field(default_factory=dict)
    interval: Mapping[str, float | tuple[tuple[float, float], ...]] = Field(default_factory=dict)
    rows: Mapping[str, int] = Field(default_factory=dict)
    yes: Mapping[str, Annotated[float, Field(ge=0, le=1)]] = Field(default_factory=dict)
    members: tuple[CurveBody, ...] = ()


class Body(Spec):
    """Content of a whole checkpoint. members: parameters by number."""

    format: str
    feature_version: str
    metrics: Annotated[tuple[str, ...], Field(min_length=1)]
    config: NetworkConfig
    scaling: Scaling
    members: Annotated[dict[str, dict[str, Any]], Field(min_length=1)]
    manifest: ManifestBody

    @model_validator(mode="after")
    def _fit(self) -> Self:
        if unknown := set(self.metrics) - set(METRICS):
            raise ValueError(f"metrics: {min(unknown)!r} is no metric")
        sizes = {len(self.metrics), self.config.outputs, len(self.scaling.mean), len(self.scaling.deviation)}
        sizes |= {len(each) for each in self.scaling.gate}
        if len(self.scaling.gate) not in (0, len(KINDS)):
            raise ValueError(f"scaling.gate is not of {len(KINDS)} kinds of plans")
        if len(sizes) > 1 or len(set(self.metrics)) < len(self.metrics):
            raise ValueError("metrics, scaling and config.outputs are not of the same number")
        if set(self.members) != {str(index) for index in range(len(self.members))}:
            raise ValueError("members are not numbered from 0")
        for index, parameters in self.members.items():
            _require_weights(self.config, parameters, f"members.{index}")
        return self


def _require_weights(config: NetworkConfig, parameters: Parameters, where: str) -> None:
    """Raises ValueError if these are not finite parameters of a network of that configuration."""
    wanted = _shapes(config)
    found = dict(_leaves(parameters))
    for name in sorted(wanted.keys() ^ found.keys()):
        raise ValueError(f"{where}: the weights {name} {'are missing' if name in wanted else 'are of no layer'}")
    for name, leaf in found.items():
        if not isinstance(leaf, np.ndarray) or leaf.shape != wanted[name] or leaf.dtype != np.float32:
            raise ValueError(f"{where}: the weights {name} are not {wanted[name]} numbers")
        if not np.isfinite(leaf).all():
            raise ValueError(f"{where}: the weights {name} are not all finite")


@cache
def _shapes(config: NetworkConfig) -> dict[str, tuple[int, ...]]:
    return {name: leaf.shape for name, leaf in _leaves(shapes(config))}


def _leaves(node: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yields each leaf with its path, and each empty mapping, which JAX does not count as a leaf."""
    if not isinstance(node, Mapping) or not node:
        yield name or "(none)", node
        return
    for key, child in node.items():
        yield from _leaves(child, f"{name}.{key}" if name else str(key))


SUFFIX = ".msgpack"
_FORMAT = "streamtwin cost model 2"
_WHAT = b"streamtwin cost model"


@dataclass(frozen=True)
class Ensemble:
    """Networks of one config for the same metrics, trained with different seeds. manifest: about their training."""

    metrics: tuple[str, ...]
    config: NetworkConfig
    scaling: Scaling
    members: tuple[Parameters, ...]
    manifest: Mapping[str, Any]

    @property
    def seen(self) -> Coverage | None:
        """Coverage of the training rows; None if the ensemble was not made by training."""
        return self.manifest.get("seen")

    @property
    def name(self) -> str:
        """Name of the ensemble and its file: its one metric, or `all`."""
        return self.metrics[0] if len(self.metrics) == 1 else "all"

    @cached_property
    def weights(self) -> tuple[Weights, ...]:
        """Weights of the members, for `models.scoring.score`."""
        return tuple(Weights.of(self.config, member) for member in self.members)


def save(ensemble: Ensemble, folder: Path) -> None:
    """Writes FOLDER/NAME.msgpack; it appears whole or not at all, and replaces an older one."""
    body = {
        "format": _FORMAT,
        "feature_version": FEATURE_VERSION,
        "metrics": list(ensemble.metrics),
        "config": ensemble.config.model_dump(mode="json"),
        "scaling": TypeAdapter(Scaling).dump_python(ensemble.scaling, mode="json"),
        "members": {str(index): member for index, member in enumerate(ensemble.members)},
        "manifest": dict(ensemble.manifest),
    }
    write_bytes(folder / f"{ensemble.name}{SUFFIX}", signed(serialization.msgpack_serialize(body), _WHAT))


def read(path: Path) -> Ensemble:
    """Reads one ensemble. Raises BadInput if the file is damaged, or made for other features than today's."""
    raw = _raw(path)
    if raw.get("feature_version") not in (None, FEATURE_VERSION):
        raise BadInput(
            f"{path} was trained on features {raw['feature_version']}, this version computes {FEATURE_VERSION}; "
            f"train again with 'twin train'"
        )
    try:
        body = parse(Body, raw, "checkpoint")
    except BadInput as error:
        raise BadInput(f"{path} is damaged ({error}); train again with 'twin train'") from None
    return Ensemble(
        metrics=body.metrics,
        config=body.config,
        scaling=body.scaling,
        members=tuple(body.members[str(index)] for index in range(len(body.members))),
        manifest=raw["manifest"],
    )


def _raw(path: Path) -> dict[str, Any]:
    corrupt = f"{path} is not a cost model, or damaged; train again with 'twin train'"
    try:
        body = serialization.msgpack_restore(verified(path.read_bytes(), _WHAT))
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise BadInput(f"{corrupt} ({type(error).__name__})") from None
    if not isinstance(body, dict) or body.get("format") != _FORMAT:
        raise BadInput(corrupt)
    return body


def read_all(folder: Path) -> tuple[Ensemble, ...]:
    """Reads every ensemble of a model directory, a metric at most once. Raises BadInput if there is none."""
    paths = sorted(folder.glob(f"*{SUFFIX}")) if folder.is_dir() else []
    if not paths:
        raise BadInput(f"{folder} holds no cost model (*{SUFFIX}); make one with 'twin train DATASET {folder}'")
    ensembles = tuple(read(path) for path in paths)
    for metric in METRICS:
        holders = [path.name for path, ensemble in zip(paths, ensembles, strict=True) if metric in ensemble.metrics]
        if len(holders) > 1:
            raise BadInput(f"{folder}: {' and '.join(holders)} both predict {metric}; remove one")
    return ensembles
