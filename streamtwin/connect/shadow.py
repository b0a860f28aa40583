"""Shadow of a job: each window of its metrics updates the estimate and the forecast."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

from optimizers.objectives import Requirements
from optimizers.space import Space
from scenarios.beside import PredictionBesideRuns, doubts
from scenarios.files.documents import CLOSED, Number, Seconds
from scenarios.planning.planner import optimize
from spark.metric_windows import Series
from streamtwin.connect import belief as windows
from streamtwin.connect.belief import Belief, Trend, believed
from twin.errors import BadInput
from twin.plan import ExecutionPlan
from twin.rates.model import RateModel
from twin.scenario import Scenario
from twin.simulation import simulate

# forecasts -----------------------------------------------------------------------------------------------------------
# Forecasts the time at which a job stops keeping up, if the trends of its rates hold, and finds moves against it.
#
# Forecasts are the rate model's; moves are found by an optimizer, and tried in the simulator.


STEPS = 12
"""Number of times ahead that are tried; the crossing is then found between two of them."""
GRAIN = 0.01
"""Precision of the forecast time, as a share of the time ahead."""


@dataclass(frozen=True, slots=True)
class HighestLoad:
    """Highest utilisation of any resource that an operator depends on, and that operator. Above 1 it cannot keep up."""

    used: float
    operator: str


@dataclass(frozen=True, slots=True)
class Forecast:
    """Forecast of backpressure. in_s: time until it begins; 0: it has begun; None: not within ahead_s. operator: where
    it begins."""

    ahead_s: float
    now: HighestLoad
    then: HighestLoad
    in_s: float | None
    operator: str | None


def pressure(scenario: Scenario, plan: ExecutionPlan) -> HighestLoad:
    """Highest utilisation under a plan at the rates that the scenario offers."""
    answer = RateModel().answer(scenario, [plan])
    worst = int(answer.offered_pressure[0].argmax())
    return HighestLoad(float(answer.offered_pressure[0, worst]), answer.operators[worst])


def forecast(belief: Belief, plan: ExecutionPlan, ahead_s: float) -> Forecast:
    """Forecast of the first time within ahead_s at which any resource is overloaded."""
    now, then = (pressure(belief.ahead(at_s), plan) for at_s in (0.0, ahead_s))
    if now.used > 1.0:
        return Forecast(ahead_s, now, then, 0.0, now.operator)
    low_s = 0.0
    for step in range(1, STEPS + 1):
        high_s = ahead_s * step / STEPS
        if pressure(belief.ahead(high_s), plan).used > 1.0:
            at_s = _crossing_s(belief, plan, low_s, high_s)
            return Forecast(ahead_s, now, then, at_s, pressure(belief.ahead(at_s), plan).operator)
        low_s = high_s
    return Forecast(ahead_s, now, then, None, None)


def _crossing_s(belief: Belief, plan: ExecutionPlan, low_s: float, high_s: float) -> float:
    """First time of overload between low_s, when there is none, and high_s, when there is, by bisection to GRAIN."""
    while high_s - low_s > GRAIN * high_s:
        middle_s = (low_s + high_s) / 2
        over = pressure(belief.ahead(middle_s), plan).used > 1.0
        low_s, high_s = (low_s, middle_s) if over else (middle_s, high_s)
    return high_s


OBJECTIVE, ESTIMATES = "e2e_latency_s", 300
HEAD_ROOM = 0.05
"""Head room that a move should leave at the rates for which it is made."""
MOST_MOVES = 3
"""Most operators that a remedy moves."""
SHARES = (1.0, 0.3, 0.0)
"""Shares of the time from the backpressure to the end of the forecast that a move should bear, the largest first."""
MOST_CPU_S = 20.0
"""Most CPU seconds of a run that checks a move."""


@dataclass(frozen=True, slots=True)
class Relocation:
    """Move of an operator's subtasks. Places are names, one for each subtask."""

    operator: str
    before: tuple[str, ...]
    after: tuple[str, ...]

    @property
    def words(self) -> str:
        """Move in words, such as "moving work from a to b"."""
        return f"moving {self.operator} from {_listed(self.before)} to {_listed(self.after)}"


@dataclass(frozen=True, slots=True)
class Remedy:
    """Remedy: a plan with few moves. for_s: the time ahead whose rates it bears. in_s: time until backpressure under
    it; None: not within the forecast."""

    plan: ExecutionPlan
    moves: tuple[Relocation, ...]
    for_s: float
    in_s: float | None


def remedy(belief: Belief, coming: Forecast) -> Remedy | None:
    """Remedy that avoids the forecast backpressure, or else delays it; None if no move of a few operators does."""
    in_s = coming.in_s or 0.0
    for share in SHARES if coming.now.used <= coming.then.used else SHARES[-1:]:
        for_s = in_s + share * (coming.ahead_s - in_s)
        worst = belief.ahead(for_s)
        plan = _fewest_moves(worst)
        if plan is not None:
            later_s = forecast(belief, plan, coming.ahead_s).in_s
            if later_s is not None:
                if later_s <= in_s:
                    continue
                for_s = max(for_s, (in_s + later_s) / 2)  # between the two, so that runs can tell the plans apart
            return Remedy(plan, tuple(_moving(worst.plan, plan)), for_s, later_s)
    return None


def _fewest_moves(scenario: Scenario) -> ExecutionPlan | None:
    """Plan that bears the scenario's rates and moves as few operators as possible; None if none is found."""
    for count in range(1, MOST_MOVES + 1):
        space = Space(most_moves=count, free_subtasks=False)
        try:
            room = Requirements(head_room=HEAD_ROOM)
            found = optimize(scenario, objective=OBJECTIVE, estimates=ESTIMATES, space=space, requirements=room)
        except BadInput:  # the job has no plan in this space
            return None
        if pressure(scenario, found.plan).used <= 1.0:
            return found.plan
    return None


def backpressured(scenario: Scenario, plan: ExecutionPlan) -> bool | None:
    """Whether the job falls behind in a run at the scenario's rates; None if that is too long or not possible."""
    planned = scenario.with_plan(plan)
    try:
        return simulate(planned, most_s=MOST_CPU_S).metrics.falls_behind
    except BadInput:
        return None


def _moving(before: ExecutionPlan, after: ExecutionPlan) -> Iterator[Relocation]:
    for name in before.placement:
        old, new = (tuple(map(str, plan.locations(name))) for plan in (before, after))
        if sorted(old) != sorted(new):
            yield Relocation(name, old, new)


def _listed(places: tuple[str, ...]) -> str:
    return ", ".join(dict.fromkeys(places))


# the shadow ----------------------------------------------------------------------------------------------------------
# Shadow of a job: each window of its metrics updates the estimate and the forecast, and may raise an alert.


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastRow:
    """Forecast after one window. pressure: utilisation of the fullest resource that any operator depends on, now and
    `ahead_s` later. costs_s: service times by operator."""

    start_s: Seconds
    end_s: Seconds
    rates: Mapping[str, Trend]
    costs_s: Mapping[str, float]
    ahead_s: Seconds
    pressure_now: float
    pressure_then: float
    operator: str
    backpressure_in_s: Number


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRow:
    """Alert after one window. avoids: whether the moves avoid backpressure by the rate model; else
    backpressure_moved_in_s is the time until it comes under them. simulated_as_it_is, simulated_moved: whether a run at
    the rates that the moves are to bear is backpressured; null: not run."""

    start_s: Seconds
    end_s: Seconds
    operator: str | None
    backpressure_in_s: Number
    ahead_s: Seconds
    moves: tuple[Relocation, ...]
    avoids: bool
    backpressure_moved_in_s: Number
    simulated_as_it_is: bool | None
    simulated_moved: bool | None
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PressureRow:
    """Utilisation of the fullest resource by a forecast: at the end of its window, and `ahead_s` later."""

    end_s: Seconds
    pressure_now: float
    ahead_s: Seconds
    pressure_then: float
    operator: str


@CLOSED
@dataclass(frozen=True, slots=True, kw_only=True)
class JobFollowed:
    """The answer of `twin shadow`. windows: number of windows with a forecast; course: what each of them said; last:
    the newest forecast; null before the first."""

    scenario: str
    out: str
    windows: int
    alerts: tuple[AlertRow, ...]
    last: ForecastRow | None
    course: tuple[PressureRow, ...]


@dataclass(frozen=True, slots=True)
class Shadow:
    """Shadow of a job. out: folder of the rows. ahead_s: length of forecasts. trend: number of windows of a trend.

    said: called with each alert.
    The rows of a window depend only on the job and on the windows up to that one.
    """

    scenario: Scenario
    out: Path
    window_s: float
    ahead_s: float
    trend: int
    said: Callable[[str], None] = lambda _text: None

    def told(self, series: Sequence[Series]) -> None:
        """Takes whole windows of metrics, oldest first, and writes their rows."""
        for window in windows.windows_of(series, self.window_s):
            self._told(self._known(window))

    def _known(self, window: windows.Window) -> windows.Window:
        """Window without operators and hosts that the job does not have."""
        names = {each.name for each in self.scenario.query.operators}
        hosts = {each.name for each in self.scenario.cluster.hosts}
        operators = {name: found for name, found in window.operators.items() if name in names}
        return replace(window, operators=operators, hosts={n: f for n, f in window.hosts.items() if n in hosts})

    def _told(self, window: windows.Window) -> None:
        rows = windows.rows_of(window)
        if not rows:
            return
        windows.write(self.out, windows.STATISTICS, window.start_s, rows)
        belief = believed(self.scenario, [*windows.before(self.out, window.start_s, self.trend - 1), window])
        if belief is None:
            return
        coming = forecast(belief, self.scenario.plan, self.ahead_s)
        windows.write(self.out, windows.FORECASTS, window.start_s, [_forecast_row(window, belief, coming)])
        if coming.in_s is not None:
            alert = _alert_row(window, belief, coming)
            windows.write(self.out, windows.ALERTS, window.start_s, [alert])
            self.said(f"at {window.end_s:,.0f} s: {alert.words}")


def followed(name: str, out: Path) -> JobFollowed:
    """Reads the alerts and the forecasts that a folder holds by now. name: of the scenario."""
    forecasts = windows.read(out, windows.FORECASTS, ForecastRow)
    columns = [field.name for field in fields(PressureRow)]
    return JobFollowed(
        scenario=name,
        out=str(out),
        windows=len(forecasts),
        alerts=tuple(windows.read(out, windows.ALERTS, AlertRow)),
        last=forecasts[-1] if forecasts else None,
        course=tuple(PressureRow(**{each: getattr(row, each) for each in columns}) for row in forecasts),
    )


def _forecast_row(window: windows.Window, belief: Belief, coming: Forecast) -> ForecastRow:
    return ForecastRow(
        start_s=window.start_s,
        end_s=window.end_s,
        rates=belief.trends,
        costs_s=belief.costs_s,
        ahead_s=coming.ahead_s,
        pressure_now=coming.now.used,
        pressure_then=coming.then.used,
        operator=coming.operator or coming.then.operator,
        backpressure_in_s=coming.in_s,
    )


def _alert_row(window: windows.Window, belief: Belief, coming: Forecast) -> AlertRow:
    """Alert with a remedy, if any. Runs are simulated at the rates that it is to bear; without one, at those ahead."""
    found = remedy(belief, coming)
    then = belief.ahead(coming.ahead_s if found is None else found.for_s)
    as_it_is = backpressured(then, then.plan)
    moved = None if found is None else backpressured(then, found.plan)
    return AlertRow(
        start_s=window.start_s,
        end_s=window.end_s,
        operator=coming.operator,
        backpressure_in_s=coming.in_s,
        ahead_s=coming.ahead_s,
        moves=() if found is None else found.moves,
        avoids=found is not None and found.in_s is None,
        backpressure_moved_in_s=None if found is None else found.in_s,
        simulated_as_it_is=as_it_is,
        simulated_moved=moved,
        words=f"{_coming(coming)}; {_moves(found)}{_checked(as_it_is, moved)}{_careful(then, as_it_is, moved)}",
    )


def _coming(coming: Forecast) -> str:
    if coming.in_s == 0.0:
        return f"backpressure at {coming.operator} by now ({coming.now.used:.0%} of what it can bear)"
    return f"backpressure at {coming.operator} in {_span(coming.in_s or 0.0)} at this trend"


def _span(seconds: float) -> str:
    return f"{seconds / 60:.1f} minutes" if seconds >= 100 else f"{seconds:.0f} s"


def _moves(found: Remedy | None) -> str:
    if found is None:
        return "no move of a few operators avoids or delays it: add subtasks or hosts"
    moving = " and ".join(each.words for each in found.moves)
    return f"{moving} avoids it" if found.in_s is None else f"{moving} delays it to {_span(found.in_s)} from now"


def _checked(simulated_as_it_is: bool | None, simulated_moved: bool | None) -> str:
    """Words on whether the simulator confirms the remedy."""
    if simulated_moved is None or simulated_as_it_is is None:
        return ""
    if simulated_as_it_is == simulated_moved:
        return f", but in the simulator the job {'does not keep' if simulated_moved else 'keeps'} up either way"
    return ", as it does in the simulator" if simulated_as_it_is else ", but in the simulator it brings it about"


def _careful(then: Scenario, simulated_as_it_is: bool | None, simulated_moved: bool | None) -> str:
    """Words on forecasts that the simulator contradicts: that the job falls behind as it is, and keeps up if moved."""
    for behind, forecast_so in ((simulated_as_it_is, True), (simulated_moved, False)):
        if behind is not None:
            keep_up = not forecast_so, not behind
            found = PredictionBesideRuns.of(None, None, doubts(RateModel(), then), keep_up=keep_up)
            if not found.agrees:
                return f"; {found.careful}"
    return ""
