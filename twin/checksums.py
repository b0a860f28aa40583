"""Checksums of what is kept and read again: of files in a folder, as the program sha256sum writes and checks them, and
of single files that begin with their own."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

SUMS = "SHA256SUMS"


class ChecksumError(ValueError):
    """What is read is not what was written."""


def seal(folder: Path, files: Iterable[str]) -> None:
    """Writes the checksums of files in a folder, by their paths in it."""
    (folder / SUMS).write_text("".join(f"{digest(folder / file)}  {file}\n" for file in files), encoding="utf-8")


def sums(folder: Path) -> dict[str, str] | None:
    """The checksums that a folder was sealed with, by file; None of one that never was."""
    if not (folder / SUMS).is_file():
        return None
    lines = (folder / SUMS).read_text(encoding="utf-8", errors="replace").splitlines()
    return {pair[1]: pair[0] for pair in (line.split(maxsplit=1) for line in lines) if len(pair) == 2}


def digest(path: Path) -> str:
    """The checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def signed(content: bytes, what: bytes) -> bytes:
    """The content after a line that says what it is, and its checksum."""
    return b"%s, sha256 %s\n%s" % (what, hashlib.sha256(content).hexdigest().encode(), content)


def verified(content: bytes, what: bytes) -> bytes:
    """What was signed; as it is, if it was written without. Raises ChecksumError if it is not as it was."""
    if not content.startswith(what + b", sha256 "):
        return content
    head, _, rest = content.partition(b"\n")
    if head.rpartition(b" ")[2] != hashlib.sha256(rest).hexdigest().encode():
        raise ChecksumError("its checksum is another one")
    return rest
