"""Predicts measures and limits by the rate model in milliseconds, under the names that simulated runs have."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from scenarios.files.documents import Number
from scenarios.measures import FLAGS, KEEPS_UP, MEAN, Measures
from scenarios.questions.bisection import Border, Prober, Range, broken, spot_checks
from scenarios.questions.kept import RunOutcome
from scenarios.questions.knobs import SubtasksKnob
from scenarios.questions.resources import binding, resources
from twin.metrics import CHECKPOINTS, LATENCIES
from twin.quantities import written
from twin.rates.model import RateModel
from twin.scenario import RunSettings, Scenario
from twin.steadiness import memory_s, slides_s, steady, unchanging

FINER = 4
"""Precision of a prediction over that of the proof, as a prediction costs almost nothing."""
RECORDS = 32
"""Number of records of a shortened run, times precision^2. At a utilisation of 1 the backlog varies by sqrt(2 n) in n
records (Poisson arrivals, services of a coefficient of variation of 1): here by a quarter of the precision."""
PAUSES = 10
"""Least number of pauses for garbage collection on each host in a shortened run."""
SHORTER = 0.6
"""Largest share of a run's length that is worth shortening it to."""
EVERY = 32
"""Width of a range of whole numbers up to which all of them are predicted; each takes some 20 ms."""
FEW = 8
"""Factor on the start up to which runs look for a limit if none is predicted."""
Status = Literal["found", "always", "never", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedLimit:
    """The limit that the rate model predicts without a run, in the unit of the varied value.

    status, value: of runs as long as the scenario's; `unknown` if the model predicts no metric of the condition.
    in_long_runs: the limit in runs of a day, which may exist even if the condition always holds in shorter ones. A
    limit is null if there is none within `tried`, the smallest and the largest value tried. not_valid: why no value
    beyond these is allowed, where the search met that end. nearest: if there is none, numbers of the condition where it
    is nearest to holding, in words. ignores: features of the scenario and the condition that the
    rate model ignores.
    """

    status: Status
    value: Number
    in_long_runs: Number
    tried: tuple[float, float]
    binds: str
    ignores: tuple[str, ...]
    not_valid: str | None = None
    nearest: str = ""

    @property
    def lasting(self) -> float | None:
        """The limit that lasts: in runs of a day where there is one, else in those of the scenario."""
        return self.value if self.in_long_runs is None else self.in_long_runs


def measures_predicted(scenario: Scenario, model: RateModel | None = None) -> Measures:
    """Measures that the rate model predicts; others are missing."""
    answer = (model or RateModel()).answer(scenario, [scenario.plan])
    costs = {name: float(values[0]) for name, values in answer.costs.by_metric.items()}
    crashed = bool((answer.memory[0] >= scenario.engine.memory.crash).any())
    known = {
        "throughput_per_s": costs["throughput_per_s"],
        "processing_latency_s.mean": costs["processing_latency_s"],
        "e2e_latency_s.mean": costs["e2e_latency_s"],
        "result_delay_s.mean": costs["result_delay_s"],
        **{name: costs[name] for name in CHECKPOINTS if name in costs},
        "backpressured": float(costs["backpressured"] > 0.5 or crashed),  # a crashed job reads nothing
        "success": float(costs["success"] >= 0.5),
        "crashed": float(crashed),
    }
    for number, name in enumerate(answer.operators):
        known[f"operators.{name}.busy"] = float(answer.used[0, number])
        known[f"operators.{name}.busiest"] = float(answer.busiest_used[0, number])
        known[f"operators.{name}.rate_in_per_s"] = float(answer.in_per_s[0, number])
    for number, host in enumerate(scenario.cluster.hosts):
        known[f"hosts.{host.name}.cpu"] = float(answer.cpu[0, number])
        known[f"hosts.{host.name}.memory_mb"] = float(answer.memory[0, number] * host.ram_mb)
        known[f"links.{host.name}.utilisation"] = float(answer.card[0, number])
    ways = [ends for link in scenario.cluster.links for ends in (link.between, link.between[::-1])]
    for ends, used in zip(ways, answer.links[0], strict=True):
        known[f"links.{'->'.join(ends)}.utilisation"] = float(used)
    return known


def status_of(border: Border) -> Status:
    """Whether a border was found, or else the condition holds at all values, or at none."""
    return "found" if border.found else "always" if border.bad is None else "never"


def _known(predicted: Measures) -> set[str]:
    """Names of the measures that are predicted, and of that which follows from them."""
    return {KEEPS_UP, *predicted}


class LimitForecast:
    """Forecast of the limit by the rate model. predicted: the limit. as_long: its border in runs as long as the
    scenario's, even if only these show it. seen: whether the condition holds, by value."""

    def __init__(self, prober: Prober, within: Range) -> None:
        self._prober, self._within = prober, within
        self.seen: dict[float, bool] = {}
        self.as_long = border = long_run = self._border(RateModel())
        if border.good is not None:  # it may hold only because runs end while channels fill or state grows
            long_run = self._border(RateModel().lasting(), border.middle(within.whole) if border.found else None)
        if not long_run.found and (border.bad is None or (self._informed and self._lasts_alike)):
            border = long_run  # a limit, or none, that only short runs show does not count
        self.seen = dict(border.seen)
        self.predicted = PredictedLimit(
            status=status_of(border) if self._knows else "unknown",
            value=border.middle(within.whole) if border.found and self._knows else None,
            in_long_runs=long_run.middle(within.whole) if long_run.found and self._knows else None,
            tried=(min({*border.seen, *self.as_long.seen}), max({*border.seen, *self.as_long.seen})),
            binds=self._binds(long_run, RateModel().lasting()) if long_run.found else self._binds(border),
            ignores=self._ignored(),
            not_valid=self._prober.refusal([border]),
            nearest=self._nearest(border) if status_of(border) == "never" else "",
        )

    @property
    def complete(self) -> bool:
        """Whether a limit is predicted from all metrics of the condition, and there are no events and no policy."""
        return self.predicted.value is not None and self._informed

    @property
    def where_to_look(self) -> Range:
        """Range for runs. If a prediction that ignores nothing finds no limit, runs look only a little further."""
        within = self._within
        if within.bounded or not self._informed or self.predicted.status == "found":
            return within
        if (self.predicted.status == "always") == within.upward:
            return replace(within, high=min(within.high, within.start * FEW))
        return within if within.whole else replace(within, low=max(within.low, within.start / FEW))

    @property
    def _lasts_alike(self) -> bool:
        scenario = self._prober.scenario
        return unchanging(scenario, scenario.events, scenario.policy is not None)

    @property
    def _knows(self) -> bool:
        """Whether any term of the condition is predicted; else it would seem to hold everywhere."""
        known = _known(measures_predicted(self._prober.scenario))
        return any(term.metrics <= known for term in self._prober.condition.terms)

    @property
    def _informed(self) -> bool:
        scenario = self._prober.scenario
        unknown = self._prober.condition.metrics - _known(measures_predicted(scenario))
        return not (unknown or scenario.events or scenario.policy)

    @property
    def lasts(self) -> bool:
        """Whether the same limit is predicted, from all metrics of the condition, for runs of a day, within half the
        precision; or that the condition holds at all values in these too."""
        value, long_run = self.predicted.value, self.predicted.in_long_runs
        if value is None or long_run is None:
            return self._informed and self.predicted.status == "always" and long_run is None
        return self._informed and self._near(value, long_run)

    def single(self) -> bool:
        """Whether predictions for values far from the limit (without one, far from the start) show no other limit."""
        if not self._informed:
            return False
        at = self._within.start if self.predicted.value is None else self.predicted.value
        for value in filter(self._prober.valid, spot_checks(self._within, at)):
            self.seen[value] = self._holds(value, RateModel())
        return broken(self.seen, self._within.upward) is None

    def shorter(self) -> RunSettings | None:
        """Settings of shorter runs that show equally well whether the job keeps up; None: runs cannot be shorter.

        Shorter runs have whole, full windows, and enough records that chance matters little. The load must be constant,
        and short runs must be predicted to have the same limit as runs of a day: channels that fill hide an overload.
        """
        value = self.predicted.value
        if value is None or not self.complete or not self._prober.valid(value):
            return None
        scenario = self._prober.case(value)
        if self._within.whole or self._prober.condition.metrics != {"backpressured"}:
            return None
        if not self.lasts or not steady(scenario, scenario.events, scenario.policy is not None):
            return None
        run, noise, window_s = scenario.run, scenario.engine.noise, memory_s(scenario)
        rate_per_s = sum(law.mean_rate_per_s for law in scenario.workload.arrivals.values())
        needed_s = max(
            RECORDS / self._within.tolerance**2 / max(rate_per_s, 1e-300),
            PAUSES * (noise.gc_interval_s or 0.0) if run.noise else 0.0,
        )
        whole_s = max(window_s, run.period_s)
        filled_s = window_s - min(slides_s(scenario), default=0.0)
        measured_s = whole_s * math.ceil(needed_s / whole_s)
        while True:
            warmup_s = run.period_s * math.ceil(max(filled_s, measured_s / 4) / run.period_s)
            settings = run.model_copy(
                update={"warmup_s": min(run.warmup_s, warmup_s), "horizon_s": min(run.warmup_s, warmup_s) + measured_s}
            )
            if settings.horizon_s > SHORTER * run.horizon_s:
                return None
            border = self._border(RateModel(), value, settings)
            if border.found and self._near(border.middle(whole=False), value):
                return settings
            measured_s *= 2

    def _near(self, one: float, other: float) -> bool:
        return abs(one - other) <= self._within.tolerance / 2 * abs(other)

    def _border(self, model: RateModel, start: float | None = None, run: RunSettings | None = None) -> Border:
        finer = replace(self._within, tolerance=self._within.tolerance / FINER)
        if start is not None:
            finer = finer.near(start)

        def ask(asked: Sequence[tuple[int, float]]) -> list[bool]:
            return [self._holds(value, model, run) for _, value in asked]

        border = self._prober.search([0], finer, ask)[0]
        uneven = isinstance(self._prober.knob, SubtasksKnob)
        return self._among_all(border, lambda value: ask([(0, value)])[0]) if uneven else border

    def _among_all(self, border: Border, holds: Callable[[float], bool]) -> Border:
        """Border among all allowed numbers of subtasks in the range, or up to twice the one found if there is no range;
        as it is if these are very many. More subtasks may bear less, as they may share key groups less evenly."""
        within, seen = self._within, border.seen
        if not seen:
            return border
        low, high = within.low, within.high if within.bounded else 2 * max(within.start, border.good or 0.0)
        if high - low > EVERY:
            return border
        for value in map(float, range(round(low), round(high) + 1)):
            if value not in seen and self._prober.valid(value):
                seen[value] = holds(value)
        held = [value for value in seen if seen[value]]
        failed = [value for value in seen if not seen[value]]
        if not held or not failed:
            return border
        border.good = max(held) if within.upward else min(held)
        outside = [value for value in failed if (value > border.good) == within.upward]
        border.bad = (min(outside) if within.upward else max(outside)) if outside else None
        border.wall = None if outside else border.good + (1.0 if within.upward else -1.0)  # the end of the range
        return border

    def _holds(self, value: float, model: RateModel, run: RunSettings | None = None) -> bool:
        scenario = self._prober.case(value)
        if run is not None:
            scenario = scenario.model_copy(update={"run": run})
        known = measures_predicted(scenario, model)
        return all(term.test(known) for term in self._prober.condition.terms if term.metrics <= _known(known))

    def _binds(self, border: Border, model: RateModel | None = None) -> str:
        """Resources that bind beyond a border, by the model that found it."""
        if border.bad is None:
            return ""
        ends = (border.bad, border.good)
        near = [value for value in reversed(border.seen) if value <= FEW * self._within.start]
        cases = [self._prober.case(value) for value in (ends if border.found else near) if value is not None]
        at = next(iter(cases), self._prober.scenario)
        return binding(resources(at, [RunOutcome(measures_predicted(at, model))]), at)

    def _nearest(self, border: Border) -> str:
        value = min(border.seen) if self._within.upward else max(border.seen)
        case = self._prober.case(value)
        known, answer = measures_predicted(case), RateModel().answer(case, [case.plan])
        failing = [each for each in self._prober.condition.terms if each.metrics <= _known(known)]
        metrics = {name for each in failing if not each.test(known) for name in each.metrics - {*FLAGS}}
        units = {name: " s" * name.startswith(LATENCIES) for name in metrics}
        words = [f"{name.removesuffix(MEAN)} is {written(known[name])}{units[name]}" for name in sorted(metrics)]
        held_s, holder = max(zip(answer.window_s[0].tolist(), answer.operators, strict=True))
        if held_s > 0.0 and any(name.startswith(LATENCIES) for name in metrics):
            words.append(f"records wait {held_s:.3g} s for windows of {holder}")
        return f"at {written(value, 4)}, {' and '.join(words)}" if words else ""

    def _ignored(self) -> tuple[str, ...]:
        scenario = self._prober.scenario
        unknown = self._prober.condition.metrics - _known(measures_predicted(scenario))
        return (*RateModel().blind_to(scenario), *sorted(unknown))
