"""What `twin shadow` prints with --json; its alerts and forecasts are the rows of its tables."""

from __future__ import annotations

from typing_extensions import TypedDict

from scenarios.files.documents import CLOSED, Number, PerSecond, Seconds


@CLOSED
class TrendPart(TypedDict):
    """half_width95: of the slope; null where there are too few windows. A slope that is not sure is 0."""

    now_per_s: PerSecond
    slope_per_s2: float
    half_width95: Number


@CLOSED
class ForecastPart(TypedDict):
    """pressure: utilisation of the fullest resource that any operator depends on. costs_s: service times."""

    start_s: Seconds
    end_s: Seconds
    rates: dict[str, TrendPart]
    costs_s: dict[str, float]
    ahead_s: Seconds
    pressure_now: float
    pressure_then: float
    operator: str
    backpressure_in_s: Number


@CLOSED
class MovePart(TypedDict):
    """Places of an operator's replicas."""

    operator: str
    before: list[str]
    after: list[str]


@CLOSED
class AlertPart(TypedDict):
    """avoids: by the rate model; else backpressure_moved_in_s tells when it comes after the moves. simulated_as_it_is,
    simulated_moved: whether a run at the rates that the moves are to bear is backpressured; null: not run."""

    start_s: Seconds
    end_s: Seconds
    operator: str
    backpressure_in_s: Seconds
    ahead_s: Seconds
    moves: list[MovePart]
    avoids: bool
    backpressure_moved_in_s: Number
    simulated_as_it_is: bool | None
    simulated_moved: bool | None
    words: str


@CLOSED
class ShadowDocument(TypedDict):
    """`twin shadow`. windows: that were forecast from; last: the newest forecast; null before the first."""

    out: str
    windows: int
    alerts: list[AlertPart]
    last: ForecastPart | None
