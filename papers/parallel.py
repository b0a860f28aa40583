"""Measures cases that are kept one by one, in several processes where there are many."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from papers.interface import Row, Rows
from papers.workspace import Workspace
from scenarios.executing.processes import Processes


def kept(
    workspace: Workspace,
    group: str,
    function: Callable[..., Any],
    cases: Rows,
    given: Callable[[], Mapping[str, Any]] = dict,
    decided: Mapping[str, Any] | None = None,
) -> list[Any]:
    """Values of `function(**case, **given(), seed=...)` for each case, in order, computed now or earlier.

    given: arguments that are the same for all cases, asked for once, if a case is missing. decided: those that decide
    the result, as JSON values, for the key in `Workspace.cached`. All must be picklable; interrupted, finished cases
    are kept.
    """
    keys = [{**(decided or {}), **case} for case in cases]
    missing = [number for number, key in enumerate(keys) if not workspace.has(group, key)]
    if missing:
        work = partial(_measured, function, {**given(), "seed": workspace.seed})
        with workspace.audience.progress(f"cases of {group}") as report, Processes() as processes:
            done = len(cases) - len(missing)

            def keep(position: int, value: Any) -> None:
                nonlocal done
                workspace.cached(group, keys[missing[position]], lambda: value)
                done += 1
                report(done, len(cases))

            processes.each(work, [cases[number] for number in missing], keep)
    return [workspace.cached(group, key, lambda: None) for key in keys]


def _measured(function: Callable[..., Any], given: Mapping[str, Any], case: Row) -> Any:
    return function(**case, **given)
