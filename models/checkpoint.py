"""One file an ensemble: msgpack of weights, network config, label scaling, feature version and manifest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from flax import serialization

from models.coverage import Coverage
from models.features import FEATURE_VERSION
from models.labels import Scaling
from models.layers import NetworkConfig, Parameters
from models.scoring import Weights
from twin.atomic import write_bytes
from twin.errors import BadInput
from twin.metrics import METRICS
from twin.spec import parse

SUFFIX = ".msgpack"
_FORMAT = "streamtwin cost model 2"


@dataclass(frozen=True)
class Ensemble:
    """Networks of one config for the same metrics, trained with different seeds. manifest: how, in plain values."""

    metrics: tuple[str, ...]
    config: NetworkConfig
    scaling: Scaling
    members: tuple[Parameters, ...]
    manifest: Mapping[str, Any]

    @property
    def seen(self) -> Coverage | None:
        """What the training rows held; None of an ensemble that was not made by training."""
        return self.manifest.get("seen")

    @property
    def name(self) -> str:
        """`all`, or the metric; the file is called so."""
        return self.metrics[0] if len(self.metrics) == 1 else "all"

    @cached_property
    def weights(self) -> tuple[Weights, ...]:
        """The members as `models.scoring.score` takes them."""
        return tuple(Weights.of(self.config, member) for member in self.members)


def save(ensemble: Ensemble, folder: Path) -> None:
    """Writes FOLDER/NAME.msgpack; it appears whole or not at all, and replaces an older one."""
    scaling = ensemble.scaling
    body = {
        "format": _FORMAT,
        "feature_version": FEATURE_VERSION,
        "metrics": list(ensemble.metrics),
        "config": ensemble.config.model_dump(mode="json"),
        "scaling": {**asdict(scaling), "mean": list(scaling.mean), "deviation": list(scaling.deviation)},
        "members": {str(index): member for index, member in enumerate(ensemble.members)},
        "manifest": dict(ensemble.manifest),
    }
    write_bytes(folder / f"{ensemble.name}{SUFFIX}", serialization.msgpack_serialize(body))


def read(path: Path) -> Ensemble:
    """One ensemble. Raises BadInput if the file is corrupt, or made for other features than this version computes."""
    body = _body(path)
    if body["feature_version"] != FEATURE_VERSION:
        raise BadInput(
            f"{path} was trained on features {body['feature_version']}, this version computes {FEATURE_VERSION}; "
            f"train again with 'twin train'"
        )
    try:
        return Ensemble(
            metrics=tuple(body["metrics"]),
            config=parse(NetworkConfig, body["config"], str(path)),
            scaling=Scaling(
                tuple(body["scaling"]["mean"]), tuple(body["scaling"]["deviation"]), body["scaling"]["scale"]
            ),
            members=tuple(body["members"][str(index)] for index in range(len(body["members"]))),
            manifest=_complete(body["manifest"]),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise BadInput(f"{path} lacks {error}; train again with 'twin train'") from None


def _complete(manifest: dict[str, Any]) -> dict[str, Any]:
    """Raises KeyError for an entry without which a model would answer for what it never saw."""
    return {**manifest, "seen": manifest["seen"]}


def _body(path: Path) -> dict[str, Any]:
    corrupt = f"{path} is not a cost model, or damaged; train again with 'twin train'"
    try:
        body = serialization.msgpack_restore(path.read_bytes())
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise BadInput(f"{corrupt} ({type(error).__name__})") from None
    if not isinstance(body, dict) or body.get("format") != _FORMAT or "feature_version" not in body:
        raise BadInput(corrupt)
    return body


def read_all(folder: Path) -> tuple[Ensemble, ...]:
    """Every ensemble of a model directory, a metric at most once. Raises BadInput if there is none."""
    paths = sorted(folder.glob(f"*{SUFFIX}")) if folder.is_dir() else []
    if not paths:
        raise BadInput(f"{folder} holds no cost model (*{SUFFIX}); make one with 'twin train DATASET {folder}'")
    ensembles = tuple(read(path) for path in paths)
    for metric in METRICS:
        holders = [path.name for path, ensemble in zip(paths, ensembles, strict=True) if metric in ensemble.metrics]
        if len(holders) > 1:
            raise BadInput(f"{folder}: {' and '.join(holders)} both predict {metric}; remove one")
    return ensembles
