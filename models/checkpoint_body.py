"""What a checkpoint must hold to be taken for a cost model: names, numbers and shapes that fit each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Annotated, Any, Self

import numpy as np
from pydantic import ConfigDict, Field, model_validator

from models.gnn import shapes
from models.labels import LabelScale
from models.layers import NetworkConfig, Parameters
from models.plan_kinds import KINDS
from twin.metrics import METRICS
from twin.spec import Spec


class ScalingBody(Spec):
    """As models.labels.Scaling."""

    mean: tuple[float, ...]
    deviation: tuple[Annotated[float, Field(gt=0)], ...]
    scale: LabelScale
    gate: tuple[tuple[Annotated[float, Field(ge=0, le=1)], ...], ...] = ()


class CurveBody(Spec):
    """One network's learning curve: step, training loss, validation loss."""

    model_config = ConfigDict(extra="allow")

    seed: int
    curve: tuple[tuple[float, float, float], ...]


class ManifestBody(Spec):
    """Those entries of a manifest that are read again; of an ensemble that was not made by training, some lack."""

    model_config = ConfigDict(extra="allow")

    seen: dict[str, int]
    seed: int = 0
    horizon_s: Annotated[float, Field(gt=0)] = 1.0
    horizons_s: tuple[Annotated[float, Field(gt=0)], ...] = ()
    ranges: Mapping[str, tuple[float, float]] = Field(default_factory=dict)
    interval: Mapping[str, float | tuple[tuple[float, float], ...]] = Field(default_factory=dict)
    rows: Mapping[str, int] = Field(default_factory=dict)
    members: tuple[CurveBody, ...] = ()


class Body(Spec):
    """A whole checkpoint. members: parameters by number."""

    format: str
    feature_version: str
    metrics: Annotated[tuple[str, ...], Field(min_length=1)]
    config: NetworkConfig
    scaling: ScalingBody
    members: Annotated[dict[str, dict[str, Any]], Field(min_length=1)]
    manifest: ManifestBody

    @model_validator(mode="after")
    def _fit(self) -> Self:
        if unknown := set(self.metrics) - set(METRICS):
            raise ValueError(f"metrics: {min(unknown)!r} is none")
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
    """Each leaf with its path; so is a mapping that holds nothing, which JAX does not count as one."""
    if not isinstance(node, Mapping) or not node:
        yield name or "(none)", node
        return
    for key, child in node.items():
        yield from _leaves(child, f"{name}.{key}" if name else str(key))
