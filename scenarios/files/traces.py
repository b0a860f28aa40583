"""Writes a run as a folder (tables of `twin.trace`, manifest, and the result as `--json` prints it) and other files."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from twin import atomic
from twin.atomic import new_folder
from twin.checksums import seal
from twin.errors import BadInput

if TYPE_CHECKING:
    from twin.run import Run

RESULT = "result.json"


def check_free(*outs: Path | None) -> None:
    """Raises BadInput if any output exists or cannot be made; called before any work. None: there is no output."""
    for out in outs:
        if out is not None:
            _check_free(out)


@contextmanager
def writing(out: Path, remedy: str) -> Iterator[None]:
    """Context in which `out` is written. Raises BadInput with the remedy if it cannot be."""
    try:
        yield
    except OSError as error:
        raise BadInput(f"{out} cannot be written: {error.strerror}; {remedy}") from None


def _check_free(out: Path) -> None:
    if out.exists():
        raise BadInput(f"{out} exists; remove it or give another name")
    above = next(folder for folder in (out.parent, *out.parent.parents) if folder.exists())
    if not above.is_dir():
        raise BadInput(f"{out} cannot be made: {above} is a file; name another folder")
    try:
        with tempfile.TemporaryFile(dir=above):  # permissions do not show full disks and read-only mounts
            pass
    except OSError as error:
        raise BadInput(
            f"{out} cannot be made: {above} cannot be written to ({error.strerror}); name another folder"
        ) from None


def write_run(run: Run, name: str, out: Path) -> None:
    """Writes `out` with the tables of `twin.trace`, manifest.json and result.json; whole or not at all.

    Raises BadInput if `out` exists or cannot be written.
    """
    from twin.trace import write_tables  # Parquet, which takes longer to import than a short run takes

    check_free(out)
    with writing(out, "name another folder"), new_folder(out) as aside:
        write_tables(run.rows(run="run-000000", index=0, name=name, subtasks=True), aside)
        (aside / "manifest.json").write_text(json.dumps(run.manifest, indent=2) + "\n", encoding="utf-8")
        (aside / RESULT).write_text(json.dumps(run.to_dict(), indent=2) + "\n", encoding="utf-8")
        seal(aside, ["manifest.json", RESULT])


def write_text(text: str, out: Path) -> None:
    """Writes a new text file, whole or not at all. Raises BadInput if it exists or cannot be written."""
    write_bytes(text.encode("utf-8"), out)


def write_bytes(content: bytes, out: Path) -> None:
    """Writes a new file, whole or not at all. Raises BadInput if it exists or cannot be written."""
    check_free(out)
    with writing(out, "name another file"):
        atomic.write_bytes(out, content)
