"""Files that appear whole or not at all, are checked when they are read, and nest no deeper than parsers can go."""

from __future__ import annotations

import glob
import hashlib
import json
import os
import re
import shutil
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

# whole or not at all -------------------------------------------------------------------------------------------------
# Files and folders that appear whole or not at all, even after a power cut: written aside, then renamed.


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


# how deep texts may nest ---------------------------------------------------------------------------------------------
# How deep texts may nest: counted before anything is built, as parsers and all that reads their data recurse.
#
# A text of a few kilobytes nests tens of thousands deep, which ends the process where a parser in C recurses.


DEEPEST = 100
"""Deepest nesting of lists and mappings that is read, in JSON and YAML. Scenarios nest some ten deep."""
TOO_DEEP = f"it nests lists and mappings more than {DEEPEST} deep; flatten it"

_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*"')
_STEPS = np.zeros(256, dtype=np.int64)
_STEPS[[*b"[{"]], _STEPS[[*b"]}"]] = 1, -1


def parse_json(text: str | bytes) -> Any:
    """Value of a JSON text. Raises ValueError if it is no JSON, or nests more than DEEPEST deep."""
    content = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    brackets = np.frombuffer(_TEXT.sub(b"", content), dtype=np.uint8)
    if np.cumsum(_STEPS[brackets]).max(initial=0) > DEEPEST:
        raise ValueError(TOO_DEEP)
    return json.loads(text)


# checksums -----------------------------------------------------------------------------------------------------------
# Checksums of stored data: of the files in a folder, in the format of the program sha256sum; of single files that
# begin with their own checksum; and of JSON objects, which hold it.


SUMS, KEY = "SHA256SUMS", "sha256"
TABLE_SUMS = f"_{SUMS}"
"""Name of the checksums in folders of tables: what begins with `_` is no table to pandas and Spark."""


class ChecksumError(ValueError):
    """Raised if the content of a file does not match its checksum."""


def seal(folder: Path, files: Iterable[str], name: str = SUMS) -> None:
    """Writes the checksums of `files`, which are paths within the folder, to SHA256SUMS; those of other files stay.
    name: of the file of checksums, SUMS or TABLE_SUMS."""
    known = (sums(folder) or {}) | {file: digest(folder / file) for file in files}
    write_text(folder / name, "".join(f"{each}  {file}\n" for file, each in known.items()))


def sums(folder: Path) -> dict[str, str] | None:
    """Checksums of a folder, by the path of each file; None if the folder has no SHA256SUMS."""
    there = [folder / name for name in (SUMS, TABLE_SUMS) if (folder / name).is_file()]
    if not there:
        return None
    lines = there[0].read_text(encoding="utf-8", errors="replace").splitlines()
    return {pair[1]: pair[0] for pair in (line.split(maxsplit=1) for line in lines) if len(pair) == 2}


def altered(folder: Path) -> list[str]:
    """Files of a folder that are there, have a checksum, and do not match it."""
    known = (sums(folder) or {}).items()
    return [file for file, each in known if (folder / file).is_file() and digest(folder / file) != each]


def digest(path: Path) -> str:
    """SHA-256 checksum of a file, as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def signed(content: bytes, what: bytes) -> bytes:
    """Bytes of a file: a line with `what` (the name of the format) and the content's checksum, then the content."""
    return b"%s, sha256 %s\n%s" % (what, hashlib.sha256(content).hexdigest().encode(), content)


def verified(content: bytes, what: bytes) -> bytes:
    """Returns `content` without the line of `signed`, which may be missing. Raises ChecksumError if checksums
    differ."""
    if not content.startswith(what + b", sha256 "):
        return content
    head, _, rest = content.partition(b"\n")
    if head.rpartition(b" ")[2] != hashlib.sha256(rest).hexdigest().encode():
        raise ChecksumError("its checksum does not match its content")
    return rest


def stamped(body: Mapping[str, Any], *, allow_nan: bool = True) -> str:
    """JSON object on one line, with its checksum under `sha256`. allow_nan: as of `json.dumps`."""
    plain = json.loads(json.dumps(body, allow_nan=allow_nan))
    return json.dumps({**plain, KEY: of_json(plain)})


def unstamped(text: str) -> dict[str, Any]:
    """Returns the JSON object in a text without its checksum; all of it if it has none.

    Raises ChecksumError if checksums differ, ValueError if the text holds no JSON object.
    """
    body = parse_json(text)
    if not isinstance(body, dict):
        raise ValueError("it holds no JSON object")
    if body.pop(KEY, None) not in (None, of_json(body)):
        raise ChecksumError("its checksum does not match its content")
    return body


def of_json(body: Mapping[str, Any]) -> str:
    """Checksum of a JSON object; it does not depend on the order of keys."""
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
