"""What needs no simulation: rates by conservation of flow, and windows by their law from their own measured input.

Sources, selectivities and amplifications are given with a run, so most of its rates follow by conservation; a simulator
that does no better on them has shown nothing. What is really predicted is what windows make of their input.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from streamtwin.connect.importers.run_graph import ImportedRun
from twin.flow import nominal_rates
from twin.kinds.flow import MIXED
from twin.query import Windowed


@dataclass(frozen=True, slots=True)
class Conserved:
    """Rates of one operator by conservation alone."""

    operator: str
    rate_in_per_s: float
    rate_out_per_s: float


@dataclass(frozen=True, slots=True)
class ConservedRun:
    """As a simulated run, for comparison with one."""

    operators: tuple[Conserved, ...]


@dataclass(frozen=True, slots=True)
class WindowReading:
    """An aggregate's output as its window's law has it from its own measured input, and as it was measured.

    policy: of the window, time or count.
    """

    policy: str
    predicted_per_s: float
    measured_per_s: float

    @property
    def relative_error(self) -> float:
        """Of the prediction."""
        return abs(self.predicted_per_s - self.measured_per_s) / self.measured_per_s


def conserved(run: ImportedRun) -> ConservedRun:
    """Every source delivers what is given, and what goes in comes out by ratio."""
    rates = nominal_rates(run.scenario.query, run.scenario.workload.arrivals)
    return ConservedRun(tuple(Conserved(name, each.in_per_s, each.out_per_s) for name, each in rates.items()))


def window_readings(run: ImportedRun) -> list[WindowReading]:
    """Of aggregates whose input and output were measured."""
    found = []
    for each in run.measured:
        operator = run.scenario.query.operator(each.operator)
        if isinstance(operator, Windowed) and not operator.joins and each.in_per_s and each.out_per_s:
            flow = operator.through((np.array([each.in_per_s]),), [np.array([np.inf])], MIXED)
            found.append(WindowReading(operator.window.policy, float(flow.out_per_s[0]), each.out_per_s))
    return found
