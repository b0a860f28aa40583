"""Folder of an answer: the question, every finished run, and the answer as table, figure and JSON.

The same question continues where it was interrupted. Another one is refused, so that no answer is overwritten.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scenarios.files.documents import as_csv
from scenarios.files.traces import check_free, writing
from scenarios.questions.kept import Kept
from twin.atomic import write_bytes
from twin.checksums import digest, seal, sums
from twin.errors import BadInput

QUESTION = "question.json"


def opened(out: Path | None, question: Mapping[str, Any]) -> Kept:
    """Opens the finished runs of a question. Without a folder, runs are kept in memory only.

    Raises BadInput if the folder holds something else, or cannot be made.
    """
    if out is None:
        return Kept()
    text = json.dumps(question, indent=2) + "\n"
    if not out.exists():
        check_free(out)
        _make(out)
    elif not out.is_dir():
        raise BadInput(f"{out} is a file; name another folder with --out")
    elif not (out / QUESTION).is_file() and any(out.iterdir()):
        raise BadInput(f"{out} holds something else; name another folder with --out")
    elif (out / QUESTION).is_file() and (out / QUESTION).read_bytes() != text.encode():
        _refuse_another(out, text.encode())
    _replace(out / QUESTION, text.encode())
    seal(out, [QUESTION])
    return Kept(out)


def _refuse_another(out: Path, asked: bytes) -> None:
    """Raises BadInput unless the question there is only damaged, and its checksum shows that it is the one asked."""
    known = (sums(out) or {}).get(QUESTION)
    if known == hashlib.sha256(asked).hexdigest():
        return
    if known in (None, digest(out / QUESTION)):
        raise BadInput(f"{out} holds the answer to another question (see {out / QUESTION}); name another folder")
    raise BadInput(f"{out / QUESTION} is damaged, and may be another question; remove {out}, or name another folder")


def _make(out: Path) -> None:
    try:
        out.mkdir(parents=True)
    except OSError as error:
        raise BadInput(f"{out} cannot be made: {error.strerror}; name another folder") from None


def write(out: Path, document: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], figure: bytes | None) -> None:
    """Writes answer.json, table.csv and figure.png, each whole or not at all; they replace an earlier answer."""
    _replace(out / "table.csv", as_csv(rows).encode())
    if figure is not None:
        _replace(out / "figure.png", figure)
    _replace(out / "answer.json", (json.dumps(document, indent=2, allow_nan=False) + "\n").encode())
    seal(out, ["table.csv", *(["figure.png"] if figure is not None else []), "answer.json"])


def _replace(path: Path, content: bytes) -> None:
    with writing(path, "name another folder"):
        write_bytes(path, content)
