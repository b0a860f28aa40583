"""What the last windows say of a job: its rates and their trends, and what its operators really cost.

What an operator is measured to need of a core for a tuple, beside what the rate model says it needs at the same rates,
corrects its service time; all else about the job is believed as the scenario has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from streamtwin.connect.shadow.speeds import speeds_of
from streamtwin.connect.shadow.trend import Trend, trend
from streamtwin.connect.shadow.window import Window
from twin.arrivals.law import MIN_RATE_PER_S
from twin.kinds.async_io import Calling
from twin.rates.model import RateModel
from twin.scenario import Scenario
from twin.spec import parse

COSTS = 5
"""Windows of which the median cost is believed."""


@dataclass(frozen=True, slots=True)
class Belief:
    """scenario: with the costs, and the rates as they are now. costs_s: by operator, service time of a tuple (s)."""

    scenario: Scenario
    trends: Mapping[str, Trend]
    costs_s: Mapping[str, float]

    def ahead(self, seconds: float) -> Scenario:
        """The job at the rates of that time, if the trends hold."""
        return at_rates(self.scenario, {name: each.ahead(seconds) for name, each in self.trends.items()})


def believed(given: Scenario, windows: Sequence[Window]) -> Belief | None:
    """windows: the last ones, oldest first. None while a source has not been measured in any of them."""
    trends = {}
    for source in given.query.sources:
        seen = [(each, rate) for each in windows if (rate := _offered(each, source.name)) is not None]
        if not seen:
            return None
        times_s = [each.at_s for each, _ in seen]
        trends[source.name] = trend(times_s, [rate for _, rate in seen], windows[-1].end_s)
    costs_s = _costs_s(given, windows[-COSTS:])
    rates = {name: each.now_per_s for name, each in trends.items()}
    return Belief(at_rates(with_costs(given, costs_s), rates), trends, costs_s)


def at_rates(scenario: Scenario, rates_per_s: Mapping[str, float]) -> Scenario:
    """The job with steady sources, as random between tuples as the given ones."""
    data: dict[str, Any] = scenario.model_dump(mode="json")
    for name, law in scenario.workload.arrivals.items():
        kind = "constant" if law.gap_scv == 0.0 else "poisson"
        data["workload"]["arrivals"][name] = {"law": kind, "rate_per_s": max(rates_per_s[name], MIN_RATE_PER_S)}
    return parse(Scenario, {**data, "events": [], "policy": None})


def with_costs(scenario: Scenario, costs_s: Mapping[str, float]) -> Scenario:
    """The job with these service times."""
    data: dict[str, Any] = scenario.model_dump(mode="json")
    for operator in data["query"]["operators"]:
        operator["service_time_s"] = costs_s.get(operator["name"], operator["service_time_s"])
    return parse(Scenario, data)


def _offered(window: Window, source: str) -> float | None:
    """What arrives; where nobody measures that, what is taken or emitted, which is less once there is backpressure."""
    readings = window.operators.get(source, {})
    found = [readings[name] for name in ("offered_per_s", "in_per_s", "out_per_s") if readings.get(name)]
    return found[0] if found else readings.get("offered_per_s", readings.get("out_per_s"))


def _costs_s(given: Scenario, windows: Sequence[Window]) -> dict[str, float]:
    """CPU seconds a tuple by measured operator."""
    known = given.engine, given.query
    base_s = {each.name: known[0].service_s(known[1], each) for each in given.query.operators}
    explicit = with_costs(given, base_s)
    found: dict[str, list[float]] = {}
    for window in windows:
        for name, more_s in _more_s(explicit, window).items():
            found.setdefault(name, []).append(max(0.0, base_s[name] + more_s))
    return {name: median(values) for name, values in found.items()}


def _more_s(scenario: Scenario, window: Window) -> dict[str, float]:
    """CPU seconds of a tuple that were measured beyond those predicted at the rates of the window, by operator."""
    rates = {each.name: _offered(window, each.name) for each in scenario.query.sources}
    taken = {name: rate for name, rate in rates.items() if rate is not None}
    if len(taken) < len(rates):
        return {}
    answer = RateModel().answer(at_rates(scenario, taken), [scenario.plan])
    columns = {name: number for number, name in enumerate(answer.operators)}
    speeds = speeds_of(scenario, window, {name: float(answer.speed[0, n]) for name, n in columns.items()})
    found = {}
    for name, speed in speeds.items():
        if isinstance(scenario.query.operator(name), Calling):
            continue  # its busy time holds waits for answers
        readings, predicted_per_s = window.operators[name], float(answer.in_per_s[0, columns[name]])
        tuples_per_s = readings.get("in_per_s") or taken.get(name)
        if not tuples_per_s or not predicted_per_s:
            continue
        predicted_s = float(answer.busy_cores[0, columns[name]]) / predicted_per_s
        found[name] = scenario.plan.replicas(name) * (readings["busy"] * speed / tuples_per_s - predicted_s)
    return found
