"""Cases that are kept one by one, measured by several processes; a thread waits for each and keeps its result."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from functools import partial
from typing import Any

from papers.interface import Rows
from papers.workspace import Workspace

FEW_CASES = 20
"""Up to so many, it takes longer to start processes than they save."""


def kept(
    workspace: Workspace,
    group: str,
    function: Callable[..., Any],
    cases: Rows,
    given: Callable[[], Mapping[str, Any]] = dict,
    decided: Mapping[str, Any] | None = None,
) -> list[Any]:
    """What `function(**case, **given(), seed=...)` gives for each case, in order, now or earlier.

    given: what is the same for all cases, asked for only if a case is missing. decided: what of it decides the result,
    as JSON values, for the key in `Workspace.cached`. All must be picklable; interrupted, what was finished is kept.
    """

    def one(case: Mapping[str, Any], call: Callable[[Callable[[], Any]], Any]) -> Any:
        def measure() -> Any:
            return call(partial(function, **case, **given(), seed=workspace.seed))

        return workspace.cached(group, {**(decided or {}), **case}, measure)

    with workspace.audience.progress(f"cases of {group}") as report:
        if len(cases) <= FEW_CASES:
            found = []
            for case in cases:
                found.append(one(case, lambda measure: measure()))
                report(len(found), len(cases))
            return found
        workers, spawn = os.cpu_count() or 1, multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(workers, spawn) as processes, ThreadPoolExecutor(workers) as threads:
            futures: list[Future[Any]] = [
                threads.submit(one, case, lambda measure: processes.submit(measure).result()) for case in cases
            ]
            try:
                for done, future in enumerate(as_completed(futures)):
                    future.result()
                    report(done + 1, len(cases))
            except BaseException:
                for future in futures:
                    future.cancel()
                raise
            return [future.result() for future in futures]
