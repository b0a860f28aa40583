"""Keeps each network of a training under way once it is trained, so that an interrupted training can go on."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flax import serialization

from models.training import CurvePoint, TrainedNetwork
from twin.atomic import write_bytes
from twin.checksums import signed, verified

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
