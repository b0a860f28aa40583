"""Calls of the command line, in this process unless the process itself is tested."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any
from unittest.mock import patch

import pytest
from typer.main import get_command

from streamtwin.cli import app as cli

ROOT = Path(__file__).resolve().parents[1]
WIDE = {"COLUMNS": "100"}
COMMANDS = patch("typer.main.get_command", cache(get_command))
"""Patch that makes the commands of our functions once, not for each call."""


def hears_ctrl_c() -> None:
    """Lets a process be interrupted: one that a shell starts in the background ignores Ctrl-C."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def written_to(out: IO[str], err: IO[str]) -> Iterator[None]:
    """Redirects stdout and stderr to these files for a block; a command may turn one into the other."""
    kept = [os.dup(number) for number in (1, 2)]
    try:
        for number, file in ((1, out), (2, err)):
            os.dup2(file.fileno(), number)
        with ExitStack() as stack:
            stack.enter_context(redirect_stdout(stack.enter_context(open(1, "w", closefd=False))))
            stack.enter_context(redirect_stderr(stack.enter_context(open(2, "w", closefd=False))))
            yield
    finally:
        for number, before in zip((1, 2), kept, strict=True):
            os.dup2(before, number)
            os.close(before)


def twin(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Result of a command: its exit code and its output."""
    words = [*map(str, arguments)]
    with TemporaryFile("w+") as out, TemporaryFile("w+") as err:
        with written_to(out, err), patch.dict(os.environ, WIDE), COMMANDS, pytest.raises(SystemExit) as stopped:
            cli.main(words)
        code = stopped.value.code or 0
        assert isinstance(code, int)
        return subprocess.CompletedProcess(words, code, *(file.seek(0) or file.read() for file in (out, err)))


def in_a_shell(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Result of a command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "streamtwin.cli.app", *map(str, arguments)],
        env={**os.environ, **WIDE, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def done(*arguments: object) -> str:
    """Output on stdout of a command that must succeed."""
    found = twin(*arguments, "--quiet")
    assert (found.returncode, found.stderr) == (0, ""), found.stderr
    return found.stdout


def answer(*arguments: object) -> dict[str, Any]:
    """Document that a command prints with --json."""
    document: dict[str, Any] = json.loads(done(*arguments, "--json"))
    return document


def refused(*arguments: object) -> str:
    """One line on stderr with which the command must end with status 2."""
    found = twin(*arguments, "--quiet")
    assert (found.returncode, found.stdout) == (2, ""), found.stderr
    assert found.stderr.startswith("twin: ") and found.stderr.count("\n") == 1
    assert "Traceback" not in found.stderr
    return found.stderr
