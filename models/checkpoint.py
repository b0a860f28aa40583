"""One file an ensemble: msgpack of weights, network config, label scaling, feature version and manifest.

Its first line is a checksum over the rest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from flax import serialization

from models.checkpoint_body import Body
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
_SUM = b"streamtwin cost model, sha256 "


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
        "scaling": {
            **asdict(scaling),
            **{name: _listed(getattr(scaling, name)) for name in ("mean", "deviation", "gate")},
        },
        "members": {str(index): member for index, member in enumerate(ensemble.members)},
        "manifest": dict(ensemble.manifest),
    }
    write_bytes(folder / f"{ensemble.name}{SUFFIX}", _signed(serialization.msgpack_serialize(body)))


def read(path: Path) -> Ensemble:
    """One ensemble. Raises BadInput if the file is damaged, or made for other features than this version computes."""
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
        scaling=Scaling(body.scaling.mean, body.scaling.deviation, body.scaling.scale, body.scaling.gate),
        members=tuple(body.members[str(index)] for index in range(len(body.members))),
        manifest=raw["manifest"],
    )


def _raw(path: Path) -> dict[str, Any]:
    corrupt = f"{path} is not a cost model, or damaged; train again with 'twin train'"
    try:
        body = serialization.msgpack_restore(_checked(path.read_bytes()))
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise BadInput(f"{corrupt} ({type(error).__name__})") from None
    if not isinstance(body, dict) or body.get("format") != _FORMAT:
        raise BadInput(corrupt)
    return body


def _listed(values: tuple[Any, ...]) -> list[Any]:
    """Tuples in tuples as lists, which msgpack knows."""
    return [_listed(each) if isinstance(each, tuple) else each for each in values]


def _signed(content: bytes) -> bytes:
    return b"%s%s\n%s" % (_SUM, hashlib.sha256(content).hexdigest().encode(), content)


def _checked(content: bytes) -> bytes:
    """What was signed; as it is, if it was written before there were checksums. Raises ValueError if it is damaged."""
    if not content.startswith(_SUM):
        return content
    head, _, rest = content.partition(b"\n")
    if head.removeprefix(_SUM) != hashlib.sha256(rest).hexdigest().encode():
        raise ValueError("checksum")
    return rest


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
