"""Whether windows share the state of their panes or have each one of its own (Enorm, Fig. 5): it may change in a run.

A window is of the form that held at its beginning, so that those under way stay what they are.
"""

from __future__ import annotations

import math

from twin.panes import Panes, Span, covering
from twin.windows import EventWindow

PANES, WINDOWS = "panes", "windows"


class Forms:
    """since: the forms, with the event times from which they hold. to_come: what a time is to bring, until it does."""

    def __init__(self, panes: Panes | None, windows: tuple[EventWindow, ...], form: str) -> None:
        self.panes = panes
        self.windows = windows
        self.since: list[tuple[float, str]] = [(-math.inf, form)]
        self.to_come: dict[int, str] = {}
        self._executions: dict[int, int] = {}

    def at(self, start_us: int) -> str:
        """The form of windows that begin then."""
        return next(form for since, form in reversed(self.since) if start_us >= since)

    def any_windows(self) -> bool:
        """Whether there is, or was, one state a window."""
        return any(form == WINDOWS for _, form in self.since)

    def by_panes(self, pane: Span) -> bool:
        """Whether any window that the pane is in is made of panes."""
        if len(self.since) == 1:
            return self.since[0][1] == PANES
        windows = (each for window in self.windows for each in covering(window, pane.start))
        return any(self.at(each.start) == PANES for each in windows)

    def executions(self, at_us: int) -> int:
        """For how many states the user's logic is executed for a tuple of that time."""
        if self.panes is None or not self.windows:
            return 1
        pane = self.panes.pane(at_us)
        count = self._executions.get(pane)
        if count is None:
            starts = [each.start for window in self.windows for each in covering(window, at_us)]
            forms = [self.at(start) for start in starts]
            count = self._executions[pane] = forms.count(WINDOWS) + (1 if PANES in forms else 0)
        return count

    def modify(self, cut_us: int) -> None:
        """What is to come from then on has come."""
        form = self.to_come.get(cut_us)
        if form is not None and cut_us > self.since[-1][0]:
            self.since.append((cut_us, form))
            self._executions.clear()

    def become(self, since: list[tuple[float, str]]) -> None:
        """Holds these, and no others."""
        self.since = since.copy()
        self._executions.clear()

    def come(self, sibling: Forms, cut_us: float) -> None:
        """Those of a sibling, as far as it was told up to then."""
        self.since, self.to_come = sibling.since.copy(), sibling.to_come.copy()
        for each_us in sorted(self.to_come):
            if each_us <= cut_us:
                self.modify(each_us)

    def forget(self, now_us: int) -> None:
        """No tuple comes any more to panes that end by then."""
        assert self.panes is not None
        for pane in [pane for pane in self._executions if self.panes.bounds(pane).end <= now_us]:
            del self._executions[pane]
