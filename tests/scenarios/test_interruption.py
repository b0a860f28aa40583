"""Ctrl-C: 130, one line, and a promise to go on only where something is kept."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from scenarios.commands.interruption import Interrupted, in_words, kept

ROOT = Path(__file__).resolve().parents[2]
TRAINING = """
import sys
import jax
import jax.numpy as jnp
import models.pipeline
from models.dataset import of_deployments
from scenarios import cli
from scenarios.learning import learner
from tests.models.deployments import random_deployment

LABELS = [[1.0, 1.0, 1.0, 0.0, 1.0]] * 12

def interrupted_while_computing(*_):
    twenty_s = jax.jit(lambda x: jax.lax.fori_loop(0, 400, lambda _, y: jnp.sin(y @ y), x))
    left_running = twenty_s(jnp.ones((1000, 1000)))
    print("computing", flush=True)
    raise KeyboardInterrupt

models.pipeline.train = interrupted_while_computing
learner.rows_of = lambda *_: of_deployments([random_deployment(seed) for seed in range(12)], jnp.array(LABELS))
cli.main(["train", "none", sys.argv[1]])
"""


def test_what_is_kept_is_told() -> None:
    with pytest.raises(Interrupted) as stopped, kept("the finished networks"):
        raise KeyboardInterrupt
    assert in_words(stopped.value) == "interrupted; the same command goes on, the finished networks are kept"
    assert "goes on" not in in_words(None)


def test_an_interrupted_training_ends_with_130_and_one_line_at_once(tmp_path: Path) -> None:
    """While a step is being computed: an interpreter that shuts down waits for it, or crashes."""
    program = subprocess.Popen(
        [sys.executable, "-c", TRAINING, str(tmp_path / "m")],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert program.stdout is not None and program.stdout.readline() == "computing\n"
    since_s = time.monotonic()
    _, errors = program.communicate()
    assert program.returncode == 130, errors
    assert errors.splitlines()[-1] == "twin: interrupted; the same command goes on, the finished networks are kept"
    assert time.monotonic() - since_s < 5
    assert not list(tmp_path.iterdir())
