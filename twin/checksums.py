"""Checksums of stored files: of the files in a folder, in the format of the program sha256sum, and of single files that
begin with their own checksum."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

SUMS = "SHA256SUMS"


class ChecksumError(ValueError):
    """The content of a file does not match its checksum."""


def seal(folder: Path, files: Iterable[str]) -> None:
    """Writes the checksums of `files`, which are paths within the folder, to SHA256SUMS."""
    (folder / SUMS).write_text("".join(f"{digest(folder / file)}  {file}\n" for file in files), encoding="utf-8")


def sums(folder: Path) -> dict[str, str] | None:
    """The checksums of a folder, by the path of each file; None if the folder has no SHA256SUMS."""
    if not (folder / SUMS).is_file():
        return None
    lines = (folder / SUMS).read_text(encoding="utf-8", errors="replace").splitlines()
    return {pair[1]: pair[0] for pair in (line.split(maxsplit=1) for line in lines) if len(pair) == 2}


def digest(path: Path) -> str:
    """The SHA-256 checksum of a file, as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def signed(content: bytes, what: bytes) -> bytes:
    """The content, after a line with `what` (the name of the format) and the content's checksum."""
    return b"%s, sha256 %s\n%s" % (what, hashlib.sha256(content).hexdigest().encode(), content)


def verified(content: bytes, what: bytes) -> bytes:
    """`content` without the line of `signed`; all of it if it has none. Raises ChecksumError if checksums differ."""
    if not content.startswith(what + b", sha256 "):
        return content
    head, _, rest = content.partition(b"\n")
    if head.rpartition(b" ")[2] != hashlib.sha256(rest).hexdigest().encode():
        raise ChecksumError("its checksum does not match its content")
    return rest
