"""Ctrl-C ends with 130 and one line, which promises to go on only where something is kept."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from scenarios.executing import Processes
from scenarios.files import scenario_file
from streamtwin.cli.terminal import Interrupted, ended_as_interrupted, hearing, in_words, kept
from tests.commands import hears_ctrl_c

ROOT = Path(__file__).resolve().parents[2]
TRAINING = """
import sys
import jax
import jax.numpy as jnp
import models.pipeline
from models.dataset import of_deployments
from streamtwin.cli import app as cli
from scenarios import learning
from tests.models.deployments import random_deployment

LABELS = [[1.0, 1.0, 1.0, 0.0, 1.0]] * 12

def interrupted_while_computing(*_):
    twenty_s = jax.jit(lambda x: jax.lax.fori_loop(0, 400, lambda _, y: jnp.sin(y @ y), x))
    left_running = twenty_s(jnp.ones((1000, 1000)))
    print("computing", flush=True)
    raise KeyboardInterrupt

models.pipeline.train = interrupted_while_computing
learning.rows_of = lambda *_: of_deployments([random_deployment(seed) for seed in range(12)], jnp.array(LABELS))
cli.main(["train", "none", sys.argv[1]])
"""


def test_what_is_kept_is_told() -> None:
    with pytest.raises(Interrupted) as stopped, kept("the finished networks"):
        raise KeyboardInterrupt
    assert in_words(stopped.value) == "interrupted; the same command goes on, the finished networks are kept"
    assert "goes on" not in in_words(None)


STARTING = """
import os, signal, time
from scenarios.executing import starting

context = starting()
signal.signal(signal.SIGINT, signal.SIG_IGN)
for _ in range(6):
    time.sleep(0.1)
    os.killpg(os.getpgrp(), signal.SIGINT)
from multiprocessing.forkserver import _forkserver
before = _forkserver._forkserver_pid
worker = context.Process(target=print, args=("alive",))
worker.start()
worker.join()
print(_forkserver._forkserver_pid == before)  # another one is started if it has ended
"""


def test_ctrl_c_while_workers_are_being_prepared_leaves_no_word_of_theirs() -> None:
    """The process from which workers are forked imports for a second, and outlives Ctrl-C meanwhile."""
    words = [sys.executable, "-c", STARTING]
    ended = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, start_new_session=True, timeout=60)
    assert (ended.stdout, ended.stderr, ended.returncode) == ("alive\nTrue\n", "", 0)


COMPILING = """
import sys
from unittest.mock import MagicMock
import twin.machine.object_code
from streamtwin.cli.terminal import Terminal

Terminal(quiet=QUIET)
twin.machine.object_code.cached = lambda: None
sys.modules |= {name: MagicMock() for name in ("numba", "numba.types", "numba.extending")}
import twin.machine.native
"""


@pytest.mark.parametrize("quiet", [False, True])
def test_quiet_says_nothing_of_compilation_either(quiet: bool) -> None:
    words = [sys.executable, "-c", COMPILING.replace("QUIET", str(quiet))]
    ended = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (ended.stderr == "") == quiet and ended.returncode == 0
    assert quiet or ended.stderr.startswith("compiling the simulator, once")


IMPORTING = """
import builtins, signal

def interrupted(name, *more, real=builtins.__import__):
    if name == WHILE:
        signal.raise_signal(signal.SIGINT)
    return real(name, *more)

signal.signal(signal.SIGINT, signal.default_int_handler)
builtins.__import__ = interrupted
from streamtwin.command import main
main()
"""


@pytest.mark.parametrize("module", ["importlib.util", "streamtwin.cli.app"])
def test_while_modules_are_imported_an_interruption_is_one_line_as_well(module: str) -> None:
    program = f"WHILE = {module!r}\n{IMPORTING}"
    ended = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (130, f"twin: {in_words(None)}\n")


@pytest.mark.slow
def test_an_interrupted_training_ends_with_130_and_one_line_at_once(tmp_path: Path) -> None:
    """Training ends at once while a step is computed, for which an interpreter that shuts down would wait, or crash."""
    program = subprocess.Popen(
        [sys.executable, "-c", TRAINING, str(tmp_path / "m")],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert program.stdout is not None and program.stdout.readline() == "computing\n"
    since_s = time.monotonic()
    _, errors = program.communicate()
    assert program.returncode == 130, errors
    assert errors.splitlines()[-1] == "twin: interrupted; the same command goes on, the finished networks are kept"
    assert time.monotonic() - since_s < 20
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("workers", [1, 2])
def test_an_interrupted_search_writes_and_tells_the_best_plan_so_far(tmp_path: Path, workers: int) -> None:
    """A search of minutes that is interrupted after some runs writes the best so far. A terminal sends Ctrl-C to its
    workers as well."""
    out = tmp_path / "best.yaml"
    search = ["optimize", "smart-grid", "--set", "run.horizon_s=15", "--budget", "5000runs", "--workers", str(workers)]
    program = subprocess.Popen(
        [sys.executable, "-m", "streamtwin.cli.app", *search, "--json", "--out", str(out)],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=hears_ctrl_c, start_new_session=True,
    )  # fmt: skip
    assert program.stderr is not None
    while "runs; best" not in (line := program.stderr.readline()) or not re.search(r"\b[1-9]\d+ of 5,000", line):
        assert line, "it ended by itself"
    os.killpg(program.pid, signal.SIGINT)
    output, errors = program.communicate(timeout=60)
    assert program.returncode == 130, errors
    document = json.loads(output)
    assert document["interrupted"] and document["status"] == "feasible"
    assert "stopped; the best so far" in document["message"]
    assert errors.splitlines()[-1] == f"twin: interrupted; the plan is the best so far, in {out}"
    assert scenario_file.load(str(out)).plan.model_dump(mode="json")["placement"] == document["placement"]


def test_the_second_ctrl_c_ends_it_at_once() -> None:
    said: list[str] = []
    before = signal.getsignal(signal.SIGINT)
    with hearing(said.append) as heard:
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            pytest.skip("Ctrl-C is ignored here")
        assert not heard()
        signal.raise_signal(signal.SIGINT)
        assert heard() and "best plan so far" in said[0]
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_whoever_ends_it_from_outside_interrupts_it() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), ended_as_interrupted():
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before


def test_work_that_is_given_up_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes that sleep for a minute end at once when the first item's callback interrupts."""
    working: list[multiprocessing.process.BaseProcess] = []

    def given_up(_position: int, _found: object) -> None:
        working.extend(multiprocessing.active_children())
        raise KeyboardInterrupt

    monkeypatch.setattr("scenarios.executing.STARTED_S", 0.0)

    def work() -> None:
        with Processes(2) as processes:
            processes.each(time.sleep, [0.0, 0.0, 0.0], lambda _position, _found: None)
            processes.each(time.sleep, [0.0, 60.0, 60.0], given_up)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert working
    until_s = time.monotonic() + 20.0
    while any(process.is_alive() for process in working):  # the pool's own thread may be the one that hears of the end
        assert time.monotonic() < until_s
        time.sleep(0.05)
