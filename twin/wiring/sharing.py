"""A state a pane or one a window: what the cost model finds cheaper, by what was measured, as a job runs.

Enorm, Sections 4.2 and 5.1.2: looked at again each time the longest window has passed. A change holds for windows that
begin after a cut ahead of all tuples, which a modification punctuation takes to all replicas (Section 6.2).
"""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import simpy

from twin.engine.event_time.compute import PANES, WINDOWS, ComputeLogic
from twin.engine.event_time.source import TimedSource
from twin.event_windows.forms import Form, UnitCosts, cost, period_of
from twin.event_windows.window import US_PER_S

if TYPE_CHECKING:
    from twin.wiring.wiring import Wiring


class Shared:
    """The form of one compute whose partial results are merged."""

    def __init__(self, wiring: Wiring, name: str) -> None:
        self.wiring = wiring
        self.name = name
        self.operator = wiring.query.operator(name)
        self.windows = wiring.event_times.merged_windows(name)
        panes = wiring.event_times.panes(name)
        assert panes is not None
        self.panes = panes
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
            each.sharings = [(-math.inf, self.form)]
        self.wiring.world.env.process(self._looking())

    def cheaper(self, tuples_per_s: float) -> str:
        """The form that costs less CPU at that rate, without migrations."""
        if tuples_per_s <= 0.0:
            return self.form
        operator = self.operator
        keys, groups = getattr(operator, "keys", 1), getattr(operator, "key_groups", 1)
        period = period_of(self.windows, self.panes, tuples_per_s, keys, groups)
        together = all(
            getattr(self.wiring.query.operator(stream.consumer), "combined", False)
            for stream in self.wiring.query.outputs(self.name)
        )
        forms = (Form.COMBINED_PANES, Form.COMBINED_WINDOWS) if together else (Form.SPLIT_PANES, Form.SPLIT_WINDOWS)
        panes_s, windows_s = (cost(form, period, self._costs()).cpu_s for form in forms)
        return WINDOWS if windows_s < panes_s else PANES

    def _costs(self) -> UnitCosts:
        """Of the compute's logic; and of sending a result, to a consolidate on another host, and merging it."""
        job, engine = self.wiring.job, self.wiring.engine
        size = engine.output_bytes(self.wiring.query, self.name)
        across_s = size * (engine.serialise_ns_per_byte + engine.deserialise_ns_per_byte) * 1e-9
        behind = [job.component(stream.consumer) for stream in self.wiring.query.outputs(self.name)]
        received_s = sum(each.service_s for each in behind) / len(behind)
        merge_s = max(getattr(each.operator, "merge_time_s", 0.0) for each in behind)
        ship_s = across_s + received_s + engine.result_us * 1e-6 * (self.operator.service_time_s is None)
        execute_s = getattr(self.operator, "execute_time_s", 0.0)
        return UnitCosts(execute_s=execute_s, ship_s=ship_s, merge_s=merge_s, pause_s=0.0)

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
            each.modifications[cut_us] = form
        for name in self.wiring.query.ancestors(self.name):
            for source in self.wiring.world.tasks[name]:
                if isinstance(source.logic, TimedSource):
                    source.logic.announce(cut_us)


def cut_after(wiring: Wiring) -> int:
    """The end of a pane, of all operators, after all that sources have sent. [us]"""
    now_us = math.ceil(wiring.world.env.now * US_PER_S) + 1
    finest = wiring.event_times.finest
    return finest.bounds(finest.pane(now_us)).end
