"""Executors of independent pieces of work: in this process, in several of this machine, or on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Protocol, Self


class Executor(Protocol):
    """Does the same work on many items, in any order, wherever it likes; to be left, as a context, at the end.

    Results depend on the items alone, so that no executor's differ from another's.
    """

    def each(
        self, work: Callable[[Any], Any], items: Sequence[Any], done: Callable[[int, Any], None], effort_s: float
    ) -> None:
        """Tells `done` the position of each item and what `work` made of it, as soon as that is known; here.

        `work`, items and results are picklable. effort_s: CPU seconds that all of it takes, roughly. Raises what
        `work` or `done` raises; then what is not done yet is given up.
        """

    def __enter__(self) -> Self:
        """Ready for work."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Gives back what was taken for it."""
