"""Checksums of stored data: of the files in a folder, in the format of the program sha256sum; of single files that
begin with their own checksum; and of JSON objects, which hold it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from twin.atomic import write_text
from twin.nesting import parse_json

SUMS, KEY = "SHA256SUMS", "sha256"


class ChecksumError(ValueError):
    """Raised if the content of a file does not match its checksum."""


def seal(folder: Path, files: Iterable[str]) -> None:
    """Writes the checksums of `files`, which are paths within the folder, to SHA256SUMS; those of other files stay."""
    known = (sums(folder) or {}) | {file: digest(folder / file) for file in files}
    write_text(folder / SUMS, "".join(f"{each}  {file}\n" for file, each in known.items()))


def sums(folder: Path) -> dict[str, str] | None:
    """Checksums of a folder, by the path of each file; None if the folder has no SHA256SUMS."""
    if not (folder / SUMS).is_file():
        return None
    lines = (folder / SUMS).read_text(encoding="utf-8", errors="replace").splitlines()
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
