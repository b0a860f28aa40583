"""A checkpoint gives back what was saved, or says in one line why it cannot."""

from __future__ import annotations

from pathlib import Path

import jax
import numpy as np
import pytest
from flax import serialization

from models import checkpoint, prediction
from models.checkpoint import Ensemble
from models.gnn import initial
from models.labels import Scaling
from models.layers import NetworkConfig
from twin.errors import BadInput

CONFIG = NetworkConfig(hidden=4, outputs=1, features="rates")


def ensemble(metric: str = "success") -> Ensemble:
    members = tuple(initial(CONFIG, seed) for seed in range(2))
    return Ensemble((metric,), CONFIG, Scaling((0.25,), (3.0,)), members, {"seed": 3, "seen": {"sink": 8}})


def test_round_trip_is_bitwise(tmp_path: Path) -> None:
    before = ensemble()
    checkpoint.save(before, tmp_path)
    after = checkpoint.read(tmp_path / "success.msgpack")
    assert (after.metrics, after.config, after.scaling) == (before.metrics, before.config, before.scaling)
    assert after.manifest == before.manifest
    for ours, theirs in zip(before.members, after.members, strict=True):
        assert jax.tree.structure(ours) == jax.tree.structure(theirs)
        jax.tree.map(np.testing.assert_array_equal, ours, theirs)


def test_saving_twice_gives_the_same_bytes_and_leaves_nothing_else(tmp_path: Path) -> None:
    for folder in (tmp_path / "a", tmp_path / "b"):
        checkpoint.save(ensemble(), folder)
        checkpoint.save(ensemble(), folder)
        assert [path.name for path in folder.iterdir()] == ["success.msgpack"]
    assert (tmp_path / "a/success.msgpack").read_bytes() == (tmp_path / "b/success.msgpack").read_bytes()


def test_other_features_are_refused(tmp_path: Path) -> None:
    checkpoint.save(ensemble(), tmp_path)
    path = tmp_path / "success.msgpack"
    body = serialization.msgpack_restore(path.read_bytes())
    path.write_bytes(serialization.msgpack_serialize({**body, "feature_version": "0123456789ab"}))
    with pytest.raises(BadInput, match=r"trained on features 0123456789ab, this version computes .*; train again"):
        prediction.load(tmp_path)


@pytest.mark.parametrize("damage", [b"", b"garbage", None])
def test_damaged_file_is_refused(tmp_path: Path, damage: bytes | None) -> None:
    checkpoint.save(ensemble(), tmp_path)
    path = tmp_path / "success.msgpack"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2] if damage is None else damage)
    with pytest.raises(BadInput, match="is not a cost model, or damaged"):
        checkpoint.read(path)


@pytest.mark.parametrize("key", ["config", "scaling", "members", "metrics"])
def test_missing_part_is_refused(tmp_path: Path, key: str) -> None:
    checkpoint.save(ensemble(), tmp_path)
    path = tmp_path / "success.msgpack"
    body = serialization.msgpack_restore(path.read_bytes())
    del body[key]
    path.write_bytes(serialization.msgpack_serialize(body))
    with pytest.raises(BadInput, match=f"{key}.*train again"):
        checkpoint.read(path)


def test_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "absent"):
        with pytest.raises(BadInput, match="holds no cost model"):
            prediction.load(folder)


def test_two_files_for_one_metric_are_refused(tmp_path: Path) -> None:
    checkpoint.save(ensemble(), tmp_path)
    (tmp_path / "copy.msgpack").write_bytes((tmp_path / "success.msgpack").read_bytes())
    with pytest.raises(BadInput, match="both predict success"):
        checkpoint.read_all(tmp_path)
