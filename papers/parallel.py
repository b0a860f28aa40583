"""Work that is kept piece by piece, done by several processes; a thread waits for each and keeps its result."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any

from papers.workspace import Workspace

FEW_PIECES = 20
"""Up to so many, it takes longer to start processes than they save."""


@dataclass(frozen=True)
class Piece:
    """key: as in `Workspace.cached`. arguments: of the function, asked for only if the piece is missing."""

    key: Mapping[str, Any]
    arguments: Callable[[], tuple[Any, ...]]


def kept(workspace: Workspace, group: str, function: Callable[..., Any], pieces: Sequence[Piece]) -> list[Any]:
    """What `function` gives for each piece, in order. It and its arguments must be picklable; interrupted, what was
    finished is kept."""
    with workspace.audience.progress(f"pieces of {group}") as report:
        if len(pieces) <= FEW_PIECES:
            found = []
            for piece in pieces:
                found.append(workspace.cached(group, piece.key, lambda piece=piece: function(*piece.arguments())))  # type: ignore[misc]
                report(len(found), len(pieces))
            return found
        workers, spawn = os.cpu_count() or 1, multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(workers, spawn) as processes, ThreadPoolExecutor(workers) as threads:

            def elsewhere(piece: Piece) -> Any:
                return processes.submit(function, *piece.arguments()).result()

            def one(piece: Piece) -> Any:
                return workspace.cached(group, piece.key, lambda: elsewhere(piece))

            futures: list[Future[Any]] = [threads.submit(one, piece) for piece in pieces]
            try:
                for done, future in enumerate(as_completed(futures)):
                    future.result()
                    report(done + 1, len(pieces))
            except BaseException:
                for future in futures:
                    future.cancel()
                raise
            return [future.result() for future in futures]
