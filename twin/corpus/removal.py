"""Removes what others may still be writing to."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterable
from pathlib import Path


def remove(paths: Iterable[Path]) -> None:
    """A worker whose job was cancelled may still be writing: renamed first, its folder cannot become a chunk while
    its files are being removed one by one.
    """
    for path in paths:
        condemned = path.with_name(f".chunk-{uuid.uuid4().hex}.removed")
        try:
            path.rename(condemned)
        except FileNotFoundError:  # its worker has just finished it
            continue
        if condemned.is_dir():
            shutil.rmtree(condemned, ignore_errors=True)
        else:
            condemned.unlink(missing_ok=True)
