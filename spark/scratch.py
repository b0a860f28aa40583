"""A session's own temporary folder; those of sessions that were killed are cleared away by the next one."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PREFIX = "streamtwin-spark-"
_LOCK = ".in-use"


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Empty but for a lock, which ends with the process, however it ends."""
    _clear()
    made = tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True)
    with made as folder, (Path(folder) / _LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield Path(folder)


def _clear() -> None:
    """Removes folders whose lock nobody holds. One without a lock is being made, or is not ours: it stays."""
    for lock in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/{_LOCK}"):
        try:
            with lock.open() as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent, ignore_errors=True)
        except OSError:  # it is held, belongs to another user, or has just gone
            continue
