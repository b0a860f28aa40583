"""Forms of windows: they share the states of panes, or each has its own state (Enorm, Fig. 5). This may change in a
run.

A window has the form that held at its beginning, so that windows under way keep theirs.
"""

from __future__ import annotations

import math

from twin.panes import Panes, Span, covering
from twin.windows import EventWindow

PANES, WINDOWS = "panes", "windows"


class Forms:
    """Forms of the windows of one compute, over event time. since: the forms, with the event times from which they
    hold. to_come: forms announced for later event times."""

    def __init__(self, panes: Panes | None, windows: tuple[EventWindow, ...], form: str) -> None:
        self.panes = panes
        self.windows = windows
        self.since: list[tuple[float, str]] = [(-math.inf, form)]
        self.to_come: dict[int, str] = {}
        self._executions: dict[int, int] = {}

    def at(self, start_us: int) -> str:
        """Form of windows that begin at `start_us`."""
        return next(form for since, form in reversed(self.since) if start_us >= since)

    def any_windows(self) -> bool:
        """Whether windows have, or had, states of their own."""
        return any(form == WINDOWS for _, form in self.since)

    def by_panes(self, pane: Span) -> bool:
        """Whether the pane is in any window that is made of panes."""
        if len(self.since) == 1:
            return self.since[0][1] == PANES
        windows = (span for window in self.windows for span in covering(window, pane.start))
        return any(self.at(window.start) == PANES for window in windows)

    def executions(self, at_us: int) -> int:
        """Number of states for which the user's logic is executed for a tuple of event time `at_us`."""
        if self.panes is None or not self.windows:
            return 1
        pane = self.panes.pane(at_us)
        count = self._executions.get(pane)
        if count is None:
            starts = [span.start for window in self.windows for span in covering(window, at_us)]
            forms = [self.at(start) for start in starts]
            count = self._executions[pane] = forms.count(WINDOWS) + (1 if PANES in forms else 0)
        return count

    def modify(self, cut_us: int) -> None:
        """Lets the form that was announced for `cut_us` hold from there on."""
        form = self.to_come.get(cut_us)
        if form is not None and cut_us > self.since[-1][0]:
            self.since.append((cut_us, form))
            self._executions.clear()

    def become(self, since: list[tuple[float, str]]) -> None:
        """Replaces the forms by `since`."""
        self.since = since.copy()
        self._executions.clear()

    def come(self, sibling: Forms, cut_us: float) -> None:
        """Takes over the forms of a sibling; those announced up to the cut hold already."""
        self.since, self.to_come = sibling.since.copy(), sibling.to_come.copy()
        for at_us in sorted(self.to_come):
            if at_us <= cut_us:
                self.modify(at_us)

    def forget(self, now_us: int) -> None:
        """Drops counts of panes that end by `now_us`, to which no tuple comes any more."""
        assert self.panes is not None
        for pane in [pane for pane in self._executions if self.panes.bounds(pane).end <= now_us]:
            del self._executions[pane]
