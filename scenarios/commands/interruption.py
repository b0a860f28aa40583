"""What Ctrl-C leaves behind, and how a command ends by it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

INTERRUPTED = 130


class Interrupted(BaseException):
    """A KeyboardInterrupt where something is kept; its message says what."""


@contextmanager
def kept(what: str) -> Iterator[None]:
    """What an interrupted command finds again when it is given once more. Raises Interrupted on KeyboardInterrupt."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(what) from None


def in_words(interrupted: Interrupted | None) -> str:
    """One line. None: nothing is kept."""
    if interrupted is None:
        return "interrupted; nothing half-made is left, the same command begins anew"
    return f"interrupted; the same command goes on, {interrupted} are kept"


def leave(status: int) -> NoReturn:
    """Ends the process. Interrupted in the middle of a computation, JAX's threads still run, and an interpreter that
    shuts down beside them crashes; nothing is left to be done, so it is left out.
    """
    if status == INTERRUPTED and "jax" in sys.modules:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)
