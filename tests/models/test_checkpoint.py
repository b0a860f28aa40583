"""Tests that a checkpoint, of a model or of a member, gives back what was saved, or says in one line why it cannot."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from flax import serialization

from models import checkpoint, pipeline, prediction
from models.checkpoint import Ensemble
from models.dataset import split
from models.gnn import initial
from models.labels import Scaling
from models.settings import NetworkConfig
from models.training import TrainedNetwork
from scenarios.learning import under_way
from tests.models.test_training import TINY, dataset
from twin.errors import BadInput
from twin.metrics import METRICS

CONFIG = NetworkConfig(hidden=4, outputs=1, features="rates")


@cache
def ensemble() -> Ensemble:
    members = tuple(initial(CONFIG, seed) for seed in range(2))
    return Ensemble(("success",), CONFIG, Scaling((0.25,), (3.0,)), members, {"seed": 3, "seen": {"sink": 8}})


def body_of(path: Path) -> dict[str, Any]:
    return dict(serialization.msgpack_restore(path.read_bytes().partition(b"\n")[2]))


def rewrite(path: Path, body: dict[str, Any]) -> None:
    """Writes a checkpoint's body in the format of a version without checksums."""
    path.write_bytes(serialization.msgpack_serialize(body))


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
    rewrite(path, {**body_of(path), "feature_version": "0123456789ab"})
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
    body = body_of(path)
    del body[key]
    rewrite(path, body)
    with pytest.raises(BadInput, match=f"{key}.*train again"):
        checkpoint.read(path)


def test_every_flipped_bit_is_found(tmp_path: Path) -> None:
    checkpoint.save(ensemble(), tmp_path)
    path = tmp_path / "success.msgpack"
    whole = path.read_bytes()
    for place in range(0, len(whole), 97):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        with pytest.raises(BadInput, match="damaged"):
            checkpoint.read(path)


def nothing(leaf: np.ndarray) -> np.ndarray:
    return np.full_like(leaf, np.nan)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda body: body["members"]["0"].pop("head"), "head.* are missing"),
        (lambda body: body["members"]["1"].update(tail={"w": np.zeros(2, np.float32)}), "tail.w are of no layer"),
        (lambda body: body["members"]["0"]["head"].update(layer_0=3), "layer_0"),
        (lambda body: body["members"]["0"]["head"].update(layer_2={}), "layer_2 are of no layer"),
        (lambda body: body["members"]["0"]["head"].update(layer_2=None), "layer_2 are of no layer"),
        (lambda body: body["members"].update({"0": {}}), "members.0: the weights"),
        (lambda body: body["members"]["0"]["head"]["layer_1"].update(bias=np.zeros(2, np.float32)), "are not"),
        (lambda body: body["members"]["0"].update(head=jax.tree.map(nothing, body["members"]["0"]["head"])), "finite"),
        (lambda body: body["members"].update({"7": body["members"].pop("1")}), "numbered from 0"),
        (lambda body: body.update(members={}), "members"),
        (lambda body: body.update(members=[1]), "members"),
        (lambda body: body.update(metrics=["wealth"]), "'wealth'"),
        (lambda body: body.update(metrics=["success", "backpressured"]), "not of the same number"),
        (lambda body: body["scaling"].update(mean=[float("nan")]), "scaling.mean"),
        (lambda body: body["scaling"].update(deviation=[0.0]), "scaling.deviation"),
        (lambda body: body["scaling"].update(scale="ln"), "scaling.scale"),
        (lambda body: body["config"].update(outputs=2), "not of the same number"),
        (lambda body: body["manifest"].update(seen="everything"), "manifest.seen"),
        (lambda body: body["manifest"].update(rows={"train": "many"}), "manifest.rows"),
        (lambda body: body["manifest"].update(members=[{"seed": 1, "curve": [[1]]}]), "manifest.members"),
        (lambda body: body["manifest"].update(horizon_s=0), "manifest.horizon_s"),
    ],
)
def test_parts_that_do_not_fit_are_named(tmp_path: Path, damage: Callable[[dict[str, Any]], Any], says: str) -> None:
    checkpoint.save(ensemble(), tmp_path)
    path = tmp_path / "success.msgpack"
    body = body_of(path)
    damage(body)
    rewrite(path, body)
    with pytest.raises(BadInput, match=f"damaged.*{says}.*train again"):
        checkpoint.read(path)


def test_a_checkpoint_without_checksum_is_read(tmp_path: Path) -> None:
    checkpoint.save(ensemble(), tmp_path)
    path = tmp_path / "success.msgpack"
    rewrite(path, body_of(path))
    assert checkpoint.read(path).metrics == ("success",)


def test_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "absent"):
        with pytest.raises(BadInput, match="holds no cost model"):
            prediction.load(folder)


def test_two_files_for_one_metric_are_refused(tmp_path: Path) -> None:
    checkpoint.save(ensemble(), tmp_path)
    (tmp_path / "copy.msgpack").write_bytes((tmp_path / "success.msgpack").read_bytes())
    with pytest.raises(BadInput, match="both predict success"):
        checkpoint.read_all(tmp_path)


SHORT = TINY.model_copy(update={"members": 2, "epochs": 2, "heads": "one"})
WANTED = METRICS[:1]


def test_what_another_training_left_is_not_used(tmp_path: Path) -> None:
    under_way(tmp_path / "model", dataset(), SHORT, WANTED, 1)("all", 0, lambda: TrainedNetwork({}, (), 1))
    assert len(under_way(tmp_path / "model", dataset(), SHORT, WANTED, 1)) == 1
    for settings, seed in ((SHORT.model_copy(update={"rate": 0.02}), 1), (SHORT, 2)):
        assert len(under_way(tmp_path / "model", dataset(), settings, WANTED, seed)) == 0
    fewer = under_way(tmp_path / "model", dataset().take(np.arange(100)), SHORT, WANTED, 1)
    assert len(fewer) == 0
    fewer("all", 0, lambda: TrainedNetwork({}, (), 0))
    assert len(fewer) == 1


@pytest.mark.parametrize("damage", [b"", b"\x93\x01", b"no network"])
def test_a_damaged_network_is_trained_again(tmp_path: Path, damage: bytes) -> None:
    kept = under_way(tmp_path / "model", dataset(), SHORT, WANTED, 1)
    kept("all", 0, lambda: TrainedNetwork({}, (), 1))
    assert kept("all", 0, lambda: TrainedNetwork({}, (), 2)).seed == 1
    path = tmp_path / ".model.training" / "all-0.msgpack"
    path.write_bytes(damage)
    assert kept("all", 0, lambda: TrainedNetwork({}, (), 3)).seed == 3
    path.write_bytes(path.read_bytes()[:-1] + bytes([path.read_bytes()[-1] ^ 1]))
    assert kept("all", 0, lambda: TrainedNetwork({}, (), 4)).seed == 4


def test_what_cannot_be_learned_leaves_nothing(tmp_path: Path) -> None:
    kept = under_way(tmp_path / "model", dataset(), SHORT, WANTED, 1)
    with pytest.raises(ValueError, match="unknown"):
        pipeline.train(dataset(), split(dataset(), 0), SHORT, 1, ["latency"], keep=kept)
    assert list(tmp_path.iterdir()) == []
