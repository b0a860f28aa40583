"""Where a search for a plan stands, as one line: what is done, the best plan so far, and what none can be better
than."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from optimizers.interface import PlanningProgress
from streamtwin.tables import tables

EVERY_S = 2.0
"""Between lines where nobody sees a bar."""


def words(standing: PlanningProgress, objective: str) -> str:
    """One line."""
    total = "" if standing.total is None else f" of {standing.total:,}"
    found = f"{standing.done:,}{total} {standing.what}"
    if standing.best is not None:
        found += f"; best {value(standing.best, objective)}"
    if standing.bound is not None:
        found += f", none better than {value(standing.bound, objective)}"
    return found


def value(number: float, objective: str) -> str:
    """A number in the unit of an objective."""
    return f"{tables.number(number)}/s" if objective.endswith("per_s") else tables.seconds(number)


def now_and_then(say: Callable[[str], None], objective: str) -> Callable[[PlanningProgress], None]:
    """Says a line when something else is counted, and else every EVERY_S."""
    what, at_s = "", 0.0

    def report(standing: PlanningProgress) -> None:
        nonlocal what, at_s
        if standing.what != what or time.monotonic() - at_s >= EVERY_S:
            what, at_s = standing.what, time.monotonic()
            say(words(standing, objective))

    return report


@contextmanager
def one_line(objective: str) -> Iterator[Callable[[PlanningProgress], None]]:
    """A line on stderr that changes in its place."""
    import sys

    from rich.console import Console

    with Console(file=sys.stderr).status("planning") as status:
        yield lambda standing: status.update(words(standing, objective))
