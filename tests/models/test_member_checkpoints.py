"""A training that is interrupted goes on where it stopped, to the same networks; another one begins anew."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np
import pytest

from models import pipeline
from models.checkpoint import Ensemble
from models.dataset import split
from models.member_checkpoints import MemberCheckpoints
from models.settings import TrainingSettings
from models.training import TrainedNetwork
from scenarios.learning.learner import under_way
from tests.models.test_training import TINY, dataset
from twin.metrics import METRICS

SHORT = TINY.model_copy(update={"members": 2, "epochs": 2, "heads": "one"})
WANTED = METRICS[:1]


def trained(keep: pipeline.Keep | None, settings: TrainingSettings = SHORT) -> tuple[Ensemble, ...]:
    return pipeline.train(dataset(), split(dataset(), 0), settings, 1, WANTED, keep=keep)


def interrupted(kept: MemberCheckpoints, after: int) -> None:
    """Trains until so many networks are kept."""

    def keep(name: str, index: int, train: Callable[[], TrainedNetwork]) -> TrainedNetwork:
        if len(kept) == after:
            raise KeyboardInterrupt
        return kept(name, index, train)

    with pytest.raises(KeyboardInterrupt):
        trained(keep)


@pytest.mark.slow
def test_it_goes_on_to_the_same_networks(tmp_path: Path) -> None:
    kept = under_way(tmp_path / "model", dataset(), SHORT, WANTED, 1)
    interrupted(kept, after=1)
    again = under_way(tmp_path / "model", dataset(), SHORT, WANTED, 1)
    assert len(again) == 1

    def only_the_last(name: str, index: int, train: Callable[[], TrainedNetwork]) -> TrainedNetwork:
        def counted() -> TrainedNetwork:
            fresh.append((name, index))
            return train()

        return again(name, index, counted)

    fresh = list[tuple[str, int]]()
    resumed, whole = trained(only_the_last), trained(None)
    assert fresh == [(WANTED[0], 1)]
    for ours, theirs in zip(resumed, whole, strict=True):
        jax.tree.map(np.testing.assert_array_equal, ours.members, theirs.members)
        assert ours.manifest == theirs.manifest
    again.discard()
    assert list(tmp_path.iterdir()) == []


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
