"""A state a pane or one a window: what the cost model finds cheaper, by what was measured, as a job runs.

Enorm, Sections 4.2 and 5.1.2: looked at again each time the longest window has passed. A change holds for windows that
begin after a cut ahead of all tuples, which a modification punctuation takes to all replicas (Section 6.2).
"""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import simpy

from twin.engine.windows.compute import ComputeLogic
from twin.engine.windows.forms import PANES, WINDOWS
from twin.engine.windows.source import TimedSource
from twin.event_migrations import is_combined
from twin.rates.forms import Form, cost, period_of_job, unit_costs
from twin.windows import US_PER_S

if TYPE_CHECKING:
    from twin.wiring.wiring import Wiring


class Shared:
    """The form of one compute whose partial results are merged."""

    def __init__(self, wiring: Wiring, name: str) -> None:
        self.wiring = wiring
        self.name = name
        self.windows = wiring.event_times.merged_windows(name)
        self.form = PANES

    @property
    def replicas(self) -> list[ComputeLogic]:
        """As they are now."""
        logics = [task.logic for task in self.wiring.world.tasks[self.name]]
        return [logic for logic in logics if isinstance(logic, ComputeLogic)]

    def start(self) -> None:
        """By the rates that the job is to have; and then by those that it has."""
        self.form = self.cheaper(self.wiring.job.rates[self.name].in_per_s)
        for each in self.replicas:
            each.forms.become([(-math.inf, self.form)])
        self.wiring.world.env.process(self._looking())

    def cheaper(self, tuples_per_s: float) -> str:
        """The form that costs less CPU at that rate, without migrations."""
        if tuples_per_s <= 0.0:
            return self.form
        job = self.wiring.job
        period = period_of_job(job, self.name, tuples_per_s)
        together = is_combined(job.query, self.name)
        forms = (Form.COMBINED_PANES, Form.COMBINED_WINDOWS) if together else (Form.SPLIT_PANES, Form.SPLIT_WINDOWS)
        costs = unit_costs(job, self.name, period)
        panes_s, windows_s = (cost(form, period, costs).cpu_s for form in forms)
        return WINDOWS if windows_s < panes_s else PANES

    def _looking(self) -> Generator[simpy.Event, Any, None]:
        env = self.wiring.world.env
        period_s = max(window.length_us for window in self.windows) / US_PER_S
        taken = 0
        while True:
            yield env.timeout(period_s)
            now = sum(each.station.tuples_in for each in self.replicas)
            form, taken = self.cheaper((now - taken) / period_s), now
            if form != self.form:
                self.form = form
                self._announce(cut_after(self.wiring), form)

    def _announce(self, cut_us: int, form: str) -> None:
        for each in self.replicas:
            each.forms.to_come[cut_us] = form
        for name in self.wiring.query.ancestors(self.name):
            for source in self.wiring.world.tasks.get(name, ()):
                if isinstance(source.logic, TimedSource):
                    source.logic.announce(cut_us)
        self.wiring.announced()


def cut_after(wiring: Wiring) -> int:
    """The end of a pane, of all operators, after all that sources have sent. [us]"""
    now_us = math.ceil(wiring.world.env.now * US_PER_S) + 1
    finest = wiring.event_times.finest
    return finest.bounds(finest.pane(now_us)).end
