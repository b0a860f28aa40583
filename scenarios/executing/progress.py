"""Shows the progress of long work: a bar for a person at a terminal, a line at every tenth elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

Progress = Callable[[int, int], None]
"""Function that is called with (done, total)."""


class Audience(Protocol):
    """Receiver of the progress of a command."""

    def stage(self, text: str) -> None:
        """Shows a line on the present stage of the command."""

    def progress(self, what: str) -> AbstractContextManager[Progress]:
        """Context with a function that takes (done, total) of the `what` that are counted."""


class Lines:
    """Audience that shows plain lines: for logs, pipes and tests."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.stage = say

    @contextmanager
    def progress(self, what: str) -> Iterator[Progress]:
        """Context with a function that shows a line at every tenth."""
        with to_the_end(every_tenth(lambda done, total: self.stage(f"    {done} of {total} {what}"))) as report:
            yield report


@contextmanager
def bar(what: str) -> Iterator[Progress]:
    """Context with a function that moves a bar on stderr, with counts and the time left."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn(what), TimeElapsedColumn(), TimeRemainingColumn())
    with Bars(TextColumn("   "), *columns, console=Console(file=sys.stderr)) as bars:
        task = bars.add_task(what, total=None)
        with to_the_end(lambda done, total: bars.update(task, completed=done, total=total)) as report:
            yield report


@contextmanager
def to_the_end(report: Progress) -> Iterator[Progress]:
    """Context with `report`, called with the total at the end if work ended before it, as trainings stop early."""
    done, total = 0, 0

    def watch(now: int, of: int) -> None:
        nonlocal done, total
        done, total = now, of
        report(now, of)

    yield watch
    if done < total:
        report(total, total)


def every_tenth(report: Progress) -> Progress:
    """Function that calls `report` only when another tenth is done."""
    tenths = -1

    def watch(done: int, total: int) -> None:
        nonlocal tenths
        if done * 10 // total > tenths:
            tenths = done * 10 // total
            report(done, total)

    return watch
