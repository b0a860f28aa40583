"""Number of replicas that a job would keep busy at the offered rates, from true rates as DS2 measures them.

A replica's true rate is its input over its busy time, whatever backpressure or
idleness there was (Kalavri et al., "Three steps is all you need", OSDI 2018). Offered rates and measured
selectivities give the input that each operator should take. Input that is too much for an operator that cannot be
scaled does not reach those after it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from twin.control import PeriodStatistics
from twin.query import Query, TimeWindow, Windowed

ENOUGH_BUSY_MS = 5.0
"""Busy time (ms a second) below which a true rate is not believed; the last believed rate is kept."""
STEP = 0.5
"""Relative change of a rate from its mean that makes it a new rate: the mean then starts anew."""
NOISE = 0.1
"""Share of a period's arrivals below which a backlog is a passing queue."""
SURE = 4.0
"""Standard deviations of a Poisson count below which a change of a rate is no step, and a queue no backlog."""


@dataclass(frozen=True, slots=True)
class Need:
    """Number of an operator's replicas busy all the time: at the offered rate, and for the backlog besides.

    slack: part of the load that may be due to where periods end: one record under way at each replica, here and before.
    """

    load: float
    catch_up: float
    slack: float = 0.0


class Demand:
    """Demand of a job by operator, from the periods given to `add`.

    fixed: operators whose replicas cannot change. catch_up_s: seconds within which a backlog is to be gone; None: it
    asks for nothing.
    """

    def __init__(self, query: Query, fixed: Collection[str], catch_up_s: float | None, smoothing_periods: int) -> None:
        self.query = query
        self.fixed = fixed
        self.catch_up_s = catch_up_s
        self.smoothing_periods = smoothing_periods
        windows = [operator.window for operator in query.operators if isinstance(operator, Windowed)]
        self.slide_s = max((window.slide for window in windows if isinstance(window, TimeWindow)), default=0.0)
        self._rates: deque[dict[str, float]] = deque(maxlen=smoothing_periods)
        self._work: list[PeriodStatistics] = []
        self._cost_s: dict[str, float] = {}
        self._selectivity: dict[str, float] = {}
        self._under_way: dict[str, float] = {}  # records at the replicas when measured, as a share of those taken
        self._waiting: dict[str, float] = {}
        self.behind = False
        """Whether there is a backlog."""
        self.falling_behind = False
        """Whether the backlog grows."""

    def add(self, statistics: PeriodStatistics) -> None:
        """Adds a period throughout which the job ran with the same replicas."""
        sources = {source.name: statistics.operators[source.name] for source in self.query.sources}
        rates = {name: row["arrived"] / statistics.length_s for name, row in sources.items()}
        if any(self._stepped(name, rate, statistics.length_s) for name, rate in rates.items()):
            self._rates.clear()
        self._rates.append(rates)
        before, self._waiting = self._waiting, {}
        for name, row in sources.items():
            if row["backlog"] > max(NOISE * row["arrived"], SURE * math.sqrt(row["arrived"])):
                self._waiting[name] = row["backlog"]
        self.behind = bool(self._waiting)
        self.falling_behind = any(tuples > before.get(name, 0.0) for name, tuples in self._waiting.items())
        self._measure(statistics)

    def now(self) -> dict[str, Need]:
        """Demand by the offered rates of the last period."""
        return self._needs(self._rates[-1])

    def lately(self) -> dict[str, Need]:
        """Demand by mean rates of the last few periods; while a backlog grows, by those of the last one if higher."""
        means = {name: sum(rates[name] for rates in self._rates) / len(self._rates) for name in self._rates[-1]}
        if self.falling_behind:
            means = {name: max(mean, self._rates[-1][name]) for name, mean in means.items()}
        return self._needs(means)

    def _stepped(self, name: str, rate: float, length_s: float) -> bool:
        if not self._rates:
            return False
        mean = sum(rates[name] for rates in self._rates) / len(self._rates)
        return abs(rate - mean) > max(STEP * mean, SURE * math.sqrt(mean / length_s))

    def _measure(self, statistics: PeriodStatistics) -> None:
        """Measures work and selectivities over the last periods, at least over a slide of each window: it works in
        bursts."""
        slide_periods = math.ceil(self.slide_s / statistics.length_s - 1e-9)
        if self.falling_behind and slide_periods <= 1:
            self._work = []  # the work of a tuple may have changed
        self._work = [*self._work, statistics][-max(self.smoothing_periods, slide_periods) :]
        for operator in self.query.operators:
            rows = [(period.operators[operator.name], period.length_s) for period in self._work]
            taken = sum(row["numRecordsIn"] for row, _ in rows)
            there_s = sum(row["replicas"] * length_s for row, length_s in rows)
            busy_s = sum(row["busyTimeMsPerSecond"] / 1000 * row["replicas"] * length_s for row, length_s in rows)
            if taken:
                self._under_way[operator.name] = there_s / sum(length_s for _, length_s in rows) / taken
                self._selectivity[operator.name] = sum(row["numRecordsOut"] for row, _ in rows) / taken
            if taken and busy_s * 1000 >= ENOUGH_BUSY_MS * there_s:
                self._cost_s[operator.name] = busy_s / taken

    def _needs(self, offered: Mapping[str, float]) -> dict[str, Need]:
        placement = self._work[-1].placement
        flows: dict[str, tuple[float, float, float]] = {}  # records that leave, as `_inflow` has those that come
        needs: dict[str, Need] = {}
        for operator in self.query.topological:
            name = operator.name
            if operator.is_source:
                waiting = self._waiting.get(name, 0.0)
                rate, extra = offered[name], waiting / self.catch_up_s if self.catch_up_s is not None else 0.0
                slack = 1.0 / self._work[-1].length_s
            else:
                rate, extra, slack = self._inflow(name, flows, len(placement[name]))
            slack += rate * self._under_way.get(name, 0.0)
            cost_s = self._cost_s.get(name)
            if cost_s is not None:
                needs[name] = Need(rate * cost_s, extra * cost_s, slack * cost_s)
                if name in self.fixed:
                    most = len(placement[name]) / cost_s
                    rate, extra = min(rate, most), max(0.0, min(extra, most - rate))
            share = self._selectivity.get(name, 0.0)
            flows[name] = rate * share, extra * share, slack * share
        return needs

    def _inflow(
        self, name: str, flows: Mapping[str, tuple[float, float, float]], replicas: int
    ) -> tuple[float, float, float]:
        """Records a second that come: at the offered rate, of the backlog, and how unsure the first number is."""
        rate = extra = slack = 0.0
        for stream in self.query.inputs(name):
            copies = self.query.partitioning(stream).count_of_copies(replicas)
            rate += flows[stream.producer][0] * copies
            extra += flows[stream.producer][1] * copies
            slack += flows[stream.producer][2] * copies
        return rate, extra, slack
