"""Metrics of a run, those of Costream (Definitions 1-5) first, and what is said of them: estimates by cost models, ages
of latency markers, and standard errors of means.

Here are their names, units and formulas. `twin.run` takes them from the rows of a run.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, runtime_checkable

import numpy as np

from twin.query import Query

if TYPE_CHECKING:
    from twin.plan import ExecutionPlan
    from twin.scenario import Scenario


# metrics of a run ----------------------------------------------------------------------------------------------------
# They are the rows of a table, so that whoever lists, sums up or predicts metrics needs no names of them.


BACKPRESSURE_SHARE = 0.01
"""Share of the offered rate: RO is set when the brokers' backlog grows by more."""
RowT = TypeVar("RowT", bound=Mapping[str, Any])
SAME = 1.0 - 1e-12
"""Share of the warm-up: a period that starts there starts when the warm-up ends, apart from rounding."""


def measured(rows: Iterable[RowT], warmup_s: float) -> list[RowT]:
    """Rows of statistics of the periods that start at or after the end of the warm-up."""
    return [row for row in rows if row["start_s"] >= warmup_s * SAME]


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Totals from which the metrics of a run are made, over the periods after its warm-up.

    They are numbers, or columns of a table of runs: anything that can be added, divided and compared. seconds:
    measured. results: records at the sinks; the sums of latencies [s] are over these. arrived, taken: records at the
    brokers of the sources, and taken from there. alive: whether the job has not crashed.
    """

    seconds: Any
    results: Any
    processing_s: Any
    e2e_s: Any
    arrived: Any
    taken: Any
    alive: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """Row of the table of metrics. kind: of its values; `binary` ones are estimated as probabilities. better: the
    direction.

    of: the metric of a run, given its totals; latencies are for runs with results only.
    """

    name: str
    symbol: str
    unit: str
    kind: Literal["rate", "latency", "binary"]
    better: Literal["min", "max"]
    of: Callable[[Totals], Any]


TABLE: Mapping[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric(
            name="throughput_per_s",
            symbol="T",
            unit="1/s",
            kind="rate",
            better="max",
            of=lambda run: run.results / run.seconds,
        ),
        Metric(
            name="processing_latency_s",
            symbol="Lp",
            unit="s",
            kind="latency",
            better="min",
            of=lambda run: run.processing_s / run.results,
        ),
        Metric(
            name="e2e_latency_s",
            symbol="Le",
            unit="s",
            kind="latency",
            better="min",
            of=lambda run: run.e2e_s / run.results,
        ),
        Metric(
            name="backpressured",
            symbol="RO",
            unit="",
            kind="binary",
            better="min",
            of=lambda run: run.arrived - run.taken > BACKPRESSURE_SHARE * run.arrived,
        ),
        Metric(
            name="success",
            symbol="S",
            unit="",
            kind="binary",
            better="max",
            of=lambda run: (run.results > 0) & run.alive,
        ),
    )
}
"""Metrics that cost models estimate, by name."""

METRICS = tuple(TABLE)
REGRESSION_METRICS = tuple(name for name, metric in TABLE.items() if metric.kind != "binary")
BINARY_METRICS = tuple(name for name, metric in TABLE.items() if metric.kind == "binary")
DELAY = "result_delay_s"
"""Delay of results, which is their latency without the wait for windows; see `Metrics`."""
LATENCIES = (*(name for name in METRICS if TABLE[name].kind == "latency"), DELAY)
"""Latencies of results, each a mean, with quantiles of its own."""
QUANTILES = tuple(f"{name}.{q}" for name in LATENCIES for q in ("p50", "p95", "p99"))
"""Quantiles of latencies, each of which is at most the next of the same latency."""
CHECKPOINTS = ("checkpoint_duration_s", "checkpoint_bytes")
"""Means of the checkpoints of a run; unknown without any."""
OF_RESULTS = (*METRICS, DELAY, *QUANTILES)
"""Metrics of the results of a run: all that `Metrics.value` knows."""
FURTHER = (DELAY, *QUANTILES, *CHECKPOINTS)
"""What runs measure beside METRICS, and some cost models estimate (`Further`)."""
ESTIMATED = (*METRICS, *FURTHER)
"""All that some cost model estimates."""


@dataclass(frozen=True, slots=True)
class Latency:
    """Latency in seconds over all result records after the warm-up. Quantiles are within 1 % (the middle of a bucket of
    a logarithmic histogram), so where results are nearly alike they may be below the mean, which is exact."""

    mean: float
    p50: float
    p95: float
    p99: float


@dataclass(frozen=True, slots=True)
class Metrics:
    """Metrics T, Lp, Le, R, RO and S of one run. Latencies are None when nothing reached a sink.

    throughput_per_s: result records a second at the sinks (T), but those to which only late records come.
    processing_latency_s: from the ingestion of the oldest involved input record to the result's arrival (Lp).
    e2e_latency_s: the same from that record's generation at the broker (Le).
    backpressure_per_s: arrival minus ingestion rate, summed over sources (R).
    backpressured: R above 1 % of the offered rate (RO). success: at least one result and no crash (S).
    result_delay_s: processing latency without the wait for windows: from the end of the last window that a result
    waited for, or the ingestion of the record that completed it, to its arrival. None in traces of older versions.
    queue_growth_per_s: records a second by which queues within the job grow to the end; 0 where that may be chance.
    late_per_s: records a second that came behind the watermark, dropped or sent aside; they are no results.
    """

    throughput_per_s: float
    processing_latency_s: Latency | None
    e2e_latency_s: Latency | None
    backpressure_per_s: float
    backpressured: bool
    success: bool
    records_in: int
    records_out: int
    queue_growth_per_s: float = 0.0
    result_delay_s: Latency | None = None
    late_per_s: float = 0.0

    @property
    def falls_behind(self) -> bool:
        """Whether queues grow: at the brokers, or in channels that a run may be too short to fill."""
        return self.backpressured or self.queue_growth_per_s > 0.0

    @property
    def keeps_up(self) -> bool:
        """Whether results came, without a crash, and the job does not fall behind."""
        return self.success and not self.falls_behind

    def value(self, metric: str) -> float:
        """Value of one of OF_RESULTS as a number. A latency without a quantile is the mean, or inf if nothing
        arrived; true and false are 1 and 0."""
        name, _, quantile = metric.partition(".")
        value = getattr(self, name)
        if isinstance(value, Latency):
            return float(getattr(value, quantile or "mean"))
        return math.inf if value is None else float(value)


# estimates and cost models -------------------------------------------------------------------------------------------
# A cost model is anything with a name that estimates metrics of plans. What it can do beside that, it says by having a
# method of one of the protocols below.


@dataclass(frozen=True, slots=True)
class Estimates:
    """Predictions for N plans, by metric, each [N]: latencies in seconds, probabilities in [0, 1]; of METRICS, and of
    those of FURTHER that the cost model estimates.

    spread [N]: disagreement of an ensemble, as the standard deviation of the log of the processing latency; 0 for a
    single model.
    """

    by_metric: Mapping[str, np.ndarray]
    spread: np.ndarray

    def __getitem__(self, metric: str) -> np.ndarray:
        """Estimates of one metric, [N]. Raises KeyError for one that the cost model does not estimate."""
        return self.by_metric[metric]

    @classmethod
    def together(cls, parts: Iterable[Estimates]) -> Estimates:
        """Joins the estimates of several groups of plans, in order. parts: at least one."""
        found = list(parts)
        by_metric = {name: np.concatenate([part[name] for part in found]) for name in found[0].by_metric}
        return cls(by_metric, np.concatenate([part.spread for part in found]))


class CostModel(Protocol):
    """Interface of cost models, which estimate the costs of plans of one job: analytic, learned or simulated."""

    @property
    def name(self) -> str:
        """Name that users write."""

    def predict(self, scenario: Scenario, plans: Sequence[ExecutionPlan]) -> Estimates:
        """Estimates one run of the scenario for each plan, in order. The scenario's own plan is ignored."""

    def blind_to(self, scenario: Scenario) -> tuple[str, ...]:
        """Parts of the scenario that the model ignores, in words: its estimates would be the same without them."""


@runtime_checkable
class Ranged(Protocol):
    """Cost model that knows a range of jobs."""

    def beyond(self, scenario: Scenario) -> list[str]:
        """Features of a job that are beyond the model's range, so that no search may follow it; empty if none are."""


@runtime_checkable
class Unsure(Protocol):
    """Cost model that says how far off it may be."""

    def interval(self, scenario: Scenario, plans: Sequence[ExecutionPlan], metric: str) -> np.ndarray | None:
        """Values between which a metric is in nine runs of ten, [2, N]; None if they are not known."""


@runtime_checkable
class Slow(Protocol):
    """Cost model that takes long for a single plan, so that it is asked about one at a time."""

    @property
    def replications(self) -> int:
        """Number of runs that it makes of each plan."""


@runtime_checkable
class Further(Protocol):
    """Cost model that estimates more than METRICS."""

    @property
    def further(self) -> tuple[str, ...]:
        """Names of FURTHER that it estimates."""


def estimates(model: CostModel, metric: str) -> bool:
    """Whether a cost model estimates a metric."""
    return metric in METRICS or (isinstance(model, Further) and metric in model.further)


@runtime_checkable
class Narrowable(Protocol):
    """Cost model that has more work with more metrics."""

    def only(self, metrics: Sequence[str]) -> CostModel:
        """Model that estimates only some metrics; others of METRICS are NaN."""


# latency markers -----------------------------------------------------------------------------------------------------
# Ages of latency markers, as Flink shows them: the time that a marker takes from a source to each operator.
#
# A marker waits in channels and queues as records do, takes no service and passes windows by. So its age at an operator
# is its age at the producer plus the time on the stream from there; where streams meet, there are markers of each.


Ends = tuple[str, str]
"""Names of a stream's producer and consumer."""


@dataclass(frozen=True, slots=True)
class MarkerAge:
    """Mean age of a source's markers where an operator takes them; None if no record came that way to tell."""

    operator: str
    source: str
    age_s: float | None


def marker_ages(query: Query, took_s: Mapping[Ends, float]) -> tuple[MarkerAge, ...]:
    """Ages by operator in data-flow order, and source. took_s: mean seconds on a stream; nan: unknown; absent: 0."""
    found: dict[str, list[MarkerAge]] = {operator.name: [] for operator in query.topological}
    for source in query.sources:
        count, ages_s = {source.name: 1.0}, {source.name: 0.0}
        for name in found:
            ways = [each for each in query.upstream[name] if each in count]
            if ways:
                count[name] = sum(count[each] for each in ways)
                total_s = sum(count[each] * (ages_s[each] + took_s.get((each, name), 0.0)) for each in sorted(ways))
                ages_s[name] = total_s / count[name]
                known = math.isfinite(ages_s[name])
                found[name].append(MarkerAge(name, source.name, ages_s[name] if known else None))
    return tuple(age for ages in found.values() for age in ages)


def by_operator(ages: Iterable[MarkerAge]) -> dict[str, float]:
    """Mean ages over the sources whose markers have known ages, by operator; operators without any are left out."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    for each in ages:
        if each.age_s is not None:
            found[each.operator].append(each.age_s)
    return {name: sum(values) / len(values) for name, values in found.items()}


def by_source(ages: Iterable[MarkerAge]) -> dict[str, dict[str, float | None]]:
    """Ages by operator, and then source, for JSON."""
    found: defaultdict[str, dict[str, float | None]] = defaultdict(dict)
    for each in ages:
        found[each.operator][each.source] = each.age_s
    return dict(found)


def from_sources(found: Mapping[str, Mapping[str, float | None]]) -> tuple[MarkerAge, ...]:
    """Reads the JSON of `by_source`."""
    return tuple(
        MarkerAge(operator, source, age_s) for operator, ages in found.items() for source, age_s in ages.items()
    )


def means_s(rows: Sequence[Mapping[str, Any]], warmup_s: float) -> dict[Ends, float]:
    """Mean seconds on each stream over the periods after the warm-up; nan if no record came. rows: of `StreamMeter`."""
    records: defaultdict[Ends, int] = defaultdict(int)
    took_s: defaultdict[Ends, float] = defaultdict(float)
    for row in measured(rows, warmup_s):
        records[row["ends"]] += row["records"]
        took_s[row["ends"]] += row["took_s"]
    return {ends: took_s[ends] / count if count else math.nan for ends, count in records.items()}


# standard errors -----------------------------------------------------------------------------------------------------
# Standard errors of the means of one run, from batches of the run.
#
# Batches differ by chance, and the size of these differences tells how far the mean of all is off (batch means:
# Schmeiser, Operations Research 30, 1982; Law, Simulation Modeling and Analysis, 9.5.3). A latency is a ratio, of a sum
# over a count that both vary, and its error that of a ratio estimator (Law, 9.5.2).


ERRORS = 2.0
"""Number of standard errors of an interval that holds the mean in about 95 of 100 runs."""
FEWEST_BATCHES = 6
"""Fewest batches: fewer do not show how much they vary."""
MOST_BATCHES = 24
"""Most batches: more are only shorter, and depend on each other."""
LARGE_ERROR = 0.1
"""Relative error of T above which a run warns that it has few results."""
NO_ERRORS = "no standard errors"
"""Beginning of the caution that a run is too short for standard errors; many runs together leave it out."""
DEPENDENT = (-0.25, 0.4)
"""Limits of the correlation of neighbouring batches; outside of these, batches are too short."""
MICROS = 1e6
"""Microseconds in a second: slides are compared as whole numbers of them."""


@dataclass(frozen=True, slots=True)
class StandardErrors:
    """Standard errors of T (results a second) and of the means of Lp and Le (seconds); None where they are unknown."""

    throughput_per_s: float | None = None
    processing_latency_s: float | None = None
    e2e_latency_s: float | None = None


UNKNOWN = StandardErrors()


def edges_s(start_s: float, end_s: float, memory_s: float, slides_s: Sequence[float]) -> tuple[float, ...]:
    """Times at which batches of equal length begin and end, from `start_s` or later to `end_s`; empty if they would be
    too few.

    memory_s: shortest length of a batch. slides_s: see `whole_slides_s`.
    """
    measured_s = end_s - start_s
    length_s = whole_slides_s(max(memory_s, measured_s / MOST_BATCHES), slides_s)
    count = int(measured_s / length_s + 1e-9)
    return tuple(end_s - k * length_s for k in range(count, -1, -1)) if count >= FEWEST_BATCHES else ()


def whole_slides_s(length_s: float, slides_s: Sequence[float]) -> float:
    """Length of a batch that is at least `length_s`. slides_s: seconds between evaluations of windows.

    Each batch should see as many evaluations as the others, or their number is taken for chance. So the length is a
    multiple of the longest slide, and of all slides if possible.
    """
    if not slides_s:
        return length_s
    least_s = beat_s(slides_s, 2.0 * length_s)
    return math.ceil(length_s / least_s - 1e-9) * least_s


def beat_s(slides_s: Sequence[float], most_s: float) -> float:
    """Shortest time that is a multiple of all slides; the longest slide if that time would be more than `most_s`."""
    beats = [max(1, round(slide_s * MICROS)) for slide_s in slides_s]
    all_s = math.lcm(*beats) / MICROS
    return all_s if all_s <= most_s * (1.0 + 1e-12) else max(beats) / MICROS


def standard_errors(batches: np.ndarray, *, growing: bool) -> StandardErrors:
    """Standard errors of the metrics from batches [4, B]: seconds, results, sums of processing and of end-to-end
    latencies.

    growing: the brokers' backlog grows, and Le with it, so that no mean of it exists. All are None if there are fewer
    than `FEWEST_BATCHES` batches, and those of latencies if nothing reached a sink.
    """
    if batches.shape[-1] < FEWEST_BATCHES:
        return UNKNOWN
    length_s, results, processing_s, e2e_s = batches
    return StandardErrors(
        throughput_per_s=ratio_error(results, length_s),
        processing_latency_s=ratio_error(processing_s, results),
        e2e_latency_s=None if growing else ratio_error(e2e_s, results),
    )


def ratio_error(numerators: np.ndarray, denominators: np.ndarray) -> float | None:
    """Standard error of sum(numerators) / sum(denominators), both [B] by batch; None if the denominators sum to 0.

    Neighbouring batches may depend on each other, others may not. So batches are merged in pairs while neighbours are
    much alike, or while one has what the other lacks.
    """
    below = float(denominators.sum())
    if below <= 0.0:
        return None
    left = numerators - denominators * (float(numerators.sum()) / below)
    while True:
        squares, count = float(left @ left), len(left)
        if squares <= 1e-24 * float(numerators @ numerators):
            return 0.0
        # an estimate of the correlation is too low by 1 / count
        alike = float(left[1:] @ left[:-1]) / squares + 1.0 / count
        if DEPENDENT[0] < alike < DEPENDENT[1] or count < 2 * FEWEST_BATCHES:
            break
        left = left[count % 2 :].reshape(-1, 2).sum(axis=1)
    # half of a negative correlation, so that the error never vanishes by chance
    together = 1.0 + 2.0 * alike if alike > 0.0 else max(1.0 / count, 1.0 + alike)
    return math.sqrt(squares * count / (count - 1) * together) / below


def few_results(throughput_per_s: float, errors: StandardErrors) -> list[str]:
    """Caution that results are so few, or so uneven, that the throughput is hardly known; empty if it is known well."""
    if not throughput_per_s or not errors.throughput_per_s:
        return []
    share = ERRORS * errors.throughput_per_s / throughput_per_s
    if share <= LARGE_ERROR:
        return []
    why = "few results, or they come unevenly; replicate or run longer"
    return [f"throughput is known to ± {share:.0%} only (two standard errors): {why}"]
