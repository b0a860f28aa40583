"""What long work needs, whatever it is: an executor of its independent pieces, and no pauses of Python's garbage
collector.

For runs, corpora and planners alike. Executors themselves are made elsewhere, as some need a cluster.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Protocol, Self

# executors -----------------------------------------------------------------------------------------------------------
# They work in this process, in several of this machine, or on a cluster.


class Executor(Protocol):
    """Does the same work on many items, in any order and anywhere. It is a context, which is left at the end.

    Results depend on the items alone, so all executors give the same ones.
    """

    def each(self, work: Callable[[Any], Any], items: Sequence[Any], done: Callable[[int, Any], None]) -> None:
        """Does `work` on each item, and tells `done` the item's position and result, here, as soon as it is known.

        `work`, items and results are picklable. Raises what `work` or `done` raises; then the rest is given up.
        """

    def __enter__(self) -> Self:
        """Makes the executor ready for work."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Releases its processes and connections."""


# garbage collector ---------------------------------------------------------------------------------------------------
# Work that makes many objects and no cycles does without it.


@contextmanager
def collector_paused() -> Iterator[None]:
    """Turns Python's garbage collector off: looking for cycles costs an eighth of a run in the engine, and two thirds
    of the time to read a large file."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
