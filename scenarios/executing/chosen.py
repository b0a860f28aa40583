"""Chooses the executor by the options of a command."""

from __future__ import annotations

from collections.abc import Callable

from scenarios.executing.processes import Processes
from twin.errors import BadInput
from twin.executor import Executor


def executor(workers: int | None, master: str | None, say: Callable[[str], None] = lambda _text: None) -> Executor:
    """Processes of this machine, or a Spark master. say: called with a text when something takes long to start.

    Raises BadInput if both are asked for, and as `Processes` and `OnSpark` do.
    """
    if master is None:
        return Processes(workers)
    if workers is not None:
        raise BadInput(f"--workers {workers} is for runs on this machine, not for --master {master}; give one of them")
    from spark.executor import OnSpark

    return OnSpark(master, say)
