"""Files and folders that appear whole or not at all, even after a power cut: written aside, then renamed."""

from __future__ import annotations

import glob
import os
import re
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HOST_LENGTH = 40
PARTIAL = ".partial"
"""End of the names of unfinished files and folders; they begin with a dot and the final name."""


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Gives a file beside `path` to write, which becomes or replaces `path` if all goes well, else is removed.

    The folder is made if need be. Raises OSError if it cannot be written there.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = _aside(path)
    try:
        yield aside
        _sync(aside)
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


@contextmanager
def new_folder(folder: Path, *, replacing: bool = False) -> Iterator[Path]:
    """Gives an empty folder beside `folder` to fill, which becomes `folder` if all goes well, else is removed.

    replacing: removes `folder` first if it is there by then; without it, OSError is raised if `folder` is there and not
    empty.
    """
    aside = _aside(folder)
    for leftover in (aside, *_abandoned(aside)):
        leftover.unlink() if leftover.is_file() else shutil.rmtree(leftover, ignore_errors=True)
    aside.mkdir(parents=True)
    try:
        yield aside
        for each in aside.rglob("*"):
            if each.is_file():
                _sync(each)
        if replacing:
            shutil.rmtree(folder, ignore_errors=True)
        aside.replace(folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def write_text(path: Path, text: str) -> None:
    """Writes a text file in UTF-8, whole or not at all."""
    with new_file(path) as aside:
        aside.write_text(text, encoding="utf-8")


def write_bytes(path: Path, content: bytes) -> None:
    """Writes a file of these bytes, whole or not at all."""
    with new_file(path) as aside:
        aside.write_bytes(content)


def _aside(path: Path) -> Path:
    """Name beside `path` that no other process takes, here or on another machine or container, where numbers repeat."""
    host = re.sub(r"[^\w-]", "-", socket.gethostname())[:HOST_LENGTH]
    return path.with_name(f".{path.name}.{host}.{os.getpid()}{PARTIAL}")


def _abandoned(aside: Path) -> Iterator[Path]:
    """Unfinished files and folders beside this one whose processes on this machine were killed."""
    host = aside.name.split(".")[-3]
    for path in aside.parent.glob(f".*.{glob.escape(host)}.*{PARTIAL}"):
        try:
            os.kill(int(path.name.split(".")[-2]), 0)
        except ProcessLookupError:
            yield path
        except (ValueError, OverflowError, PermissionError):  # no process's number, or another user's process
            continue


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
