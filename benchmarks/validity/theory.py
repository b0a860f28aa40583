"""Compares the simulator with queueing theory: one `Check` for each case of a law."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm, t

from benchmarks.validity import oracles
from benchmarks.validity.runs import Result, results_of
from tests.twin.worlds import HOST, chain, dealt, joined, queue
from twin.deployment import Deployment
from twin.profiles import STORM
from twin.scenario import RunSettings, Scenario

# checks --------------------------------------------------------------------------------------------------------------
# Law that the simulator is held to: a deployment, what to read of its runs, and its value by theory.


RATE_PER_S = 1000.0
LARGE = {**HOST, "cpu_percent": 20_000}
"""Host on which nothing has to share a core."""
Read = Callable[[Result], float]


@dataclass(frozen=True, slots=True)
class Check:
    """Law: what a deployment should measure.

    records: offered in a run. samples: periods of a run. busy: whether a share of time is read.
    """

    law: str
    case: str
    unit: str
    expected: float
    job: Deployment
    read: Read
    records: float = 40_000
    samples: int = 10
    busy: bool = False

    def runs(self, seeds: int, length: float) -> list[Scenario]:
        """Scenarios, one for each seed; a tenth of each run is warm-up. length: share of the records."""
        rate = sum(law.mean_rate_per_s for law in self.job.workload.arrivals.values())
        horizon_s = length * self.records / rate
        settings = RunSettings(horizon_s=horizon_s, warmup_s=horizon_s / 10, period_s=horizon_s / self.samples)
        return [Scenario.of(self.job, settings.model_copy(update={"seed": seed})) for seed in range(seeds)]


def latency(
    law: str,
    case: str,
    expected_s: float,
    job: Deployment,
    kind: str = "processing",
    minus_s: float = 0.0,
    records: float = 40_000,
    **loads: float,
) -> Iterator[Check]:
    """Checks of the mean of a latency less `minus_s`, and of `busy` in the same runs. kind: `processing` or `e2e`."""

    def read(result: Result) -> float:
        return 1e3 * (result[f"{kind}_latency_s"]["mean"] - minus_s)

    yield Check(law, case, "ms", 1e3 * expected_s, job, read, records)
    yield from busy(law, case, job, records, **loads)


def busy(law: str, case: str, job: Deployment, records: float, **loads: float) -> Iterator[Check]:
    """Checks of the share of time that operators are busy: each has a core of its own, so by the utilisation law."""
    at = case.removeprefix("wait ").removeprefix("sojourn ").removeprefix("age of results ")
    for operator, load in loads.items():
        yield Check(law, f"{operator} busy {at}", "%", 100 * load, job, _busy(operator), records, busy=True)


def _busy(operator: str) -> Read:
    return lambda result: 100.0 * float(result["operators"][operator]["busy"])


def throughput(result: Result) -> float:
    """Results a second of a run."""
    return float(result["throughput_per_s"])


def server(name: str, service_s: float, scv: float = 1.0, key_groups: int | None = None) -> dict[str, Any]:
    """Operator that passes every record on after a service. key_groups: None for records without keys."""
    keyed = {"kind": "filter"} if key_groups is None else {"kind": "map", "key_groups": key_groups}
    return keyed | {"name": name, "selectivity": 1, "service_time_s": service_s, "service_scv": scv}


# queues --------------------------------------------------------------------------------------------------------------
# Laws of single queues, of queues in a row, of subtasks that share a core or a queue.


def queue_checks() -> Iterator[Check]:
    """All checks of queues."""
    yield from _single_queues()
    yield from _tandems()
    yield from _blocking()
    yield from _processor_sharing()
    yield from _littles_law()
    yield from _saturation()
    yield from _many_servers()


def _single_queues() -> Iterator[Check]:
    for law, scv in (("M/D/1", 0.0), ("M/G/1, scv 0.25", 0.25), ("M/M/1", 1.0), ("M/G/1, scv 4", 4.0)):
        for load in (0.5, 0.8, 0.95):
            service_s, job = load / RATE_PER_S, queue(RATE_PER_S, load, scv)
            wait_s = oracles.wait_m_g_1(load, service_s, scv)
            yield from latency(law, f"wait at load {load}", wait_s, job, minus_s=service_s, records=8_000 / (1 - load))
    for load in (0.5, 0.8):
        service_s = load / RATE_PER_S
        job = chain([server("queue", service_s)], {"law": "constant", "rate_per_s": RATE_PER_S})
        wait_s = oracles.wait_d_m_1(load, service_s)
        yield from latency("D/M/1", f"wait at load {load}", wait_s, job, minus_s=service_s)


def _tandems() -> Iterator[Check]:
    for loads in ((0.5, 0.8), (0.8, 0.8, 0.8), (0.9, 0.5)):
        job = chain([server(f"q{k}", load / RATE_PER_S) for k, load in enumerate(loads)], RATE_PER_S)
        sojourn_s = sum(load / RATE_PER_S / (1 - load) for load in loads)
        case = f"sojourn at loads {', '.join(map(str, loads))}"
        yield from latency("Tandem (Jackson)", case, sojourn_s, job, records=8_000 / (1 - max(loads)))


def _blocking() -> Iterator[Check]:
    law, rates, equal = "Blocking tandem", (1 / 0.7e-3, 1 / 0.6e-3), (1000.0, 1000.0)
    for places in (1, 4):
        sojourn_s = oracles.sojourn_blocking_tandem(RATE_PER_S, rates, places)
        job = _two_in_a_row(rates, RATE_PER_S, places)
        yield from latency(law, f"sojourn, loads 0.7, 0.6, {places} places", sojourn_s, job, kind="e2e")
    for places in (1, 4, 64):
        case = f"throughput, saturated, equal servers, {places} places"
        expected = oracles.throughput_blocking_tandem(equal, places)
        yield Check(law, case, "/s", expected, _two_in_a_row(equal, 2000.0, places), throughput)


def _two_in_a_row(service_rates: tuple[float, float], rate: float, places: int) -> Deployment:
    servers = [server(f"q{k}", 1 / each) for k, each in enumerate(service_rates)]
    return chain(servers, rate, engine=STORM.model_copy(update={"channel_records": places}).model_dump(mode="json"))


def _processor_sharing() -> Iterator[Check]:
    for load, parallelism, scv in ((0.3, 8, 1.0), (0.5, 64, 1.0), (0.5, 64, 4.0), (0.8, 64, 0.0)):
        service_s = load / RATE_PER_S
        job = _on_a_small_host([server("ps", service_s, scv)], 1.0, {"ps": {"small": parallelism}})
        case = f"sojourn at load {load}, scv {scv:g}, {parallelism} subtasks on a core"
        yield from latency("M/G/1 processor sharing", case, oracles.sojourn_processor_sharing(load, service_s), job)
    service_s = 2 * 0.8 / RATE_PER_S
    job = _on_a_small_host([server("ps", service_s)], 2.0, {"ps": {"small": 64}})
    sojourn_s = oracles.wait_m_m_c(2, 0.8, service_s) + service_s
    yield from latency("Processor sharing, 2 cores", "sojourn at load 0.8, 64 subtasks", sojourn_s, job)
    for loads in ((0.4, 0.4), (0.6, 0.3), (0.3, 0.6)):
        rates = (RATE_PER_S / loads[0], RATE_PER_S / loads[1])
        servers = [server(f"q{k}", load / RATE_PER_S) for k, load in enumerate(loads)]
        job = _on_a_small_host(servers, 1.0, {"q0": "small", "q1": "small"})
        case, (sojourn_s, q0, q1) = f"sojourn at loads {loads[0]}, {loads[1]}", oracles.shared_core(RATE_PER_S, rates)
        yield from latency("Two operators on a core", case, sojourn_s, job, records=80_000, q0=q0, q1=q1)


def _littles_law() -> Iterator[Check]:
    for load in (0.5, 0.8, 0.95):

        def ratio(result: Result, service_s: float = load / RATE_PER_S) -> float:
            wait_s = result["processing_latency_s"]["mean"] - service_s
            return float(result["queue_length"]["queue"] / result["throughput_per_s"] / wait_s)

        law, case = "Little's law", f"sampled queue / (rate × wait), M/M/1 at load {load}"
        yield Check(law, case, "", 1.0, queue(RATE_PER_S, load, 1.0), ratio, records=8_000 / (1 - load), samples=2000)


def _saturation() -> Iterator[Check]:
    slow = chain([server("slow", 1e-3)], 2 * RATE_PER_S)
    yield Check("Saturated server", "throughput at load 2", "/s", 1000.0, slow, throughput)
    # the record that blocks the source, and those queued and in service before it
    sojourn_s = (STORM.channel_records + 2) * 1e-3
    case = "processing latency behind 1,024 credits"
    yield from latency("Saturated server", case, sojourn_s, slow, records=120_000)


def _many_servers() -> Iterator[Check]:
    for servers in (2, 4, 16):
        for load in (0.5, 0.8, 0.95):
            service_s = servers * load / RATE_PER_S
            job = chain([server("queue", service_s)], RATE_PER_S, placement={"queue": {"h": servers}})
            yield from latency(
                f"M/M/{servers}",
                f"wait at load {load}",
                oracles.wait_m_m_c(servers, load, service_s),
                dealt(job, queue="shared"),
                minus_s=service_s,
                records=8_000 / (1 - load),
            )


def _on_a_small_host(servers: list[dict[str, Any]], cores: float, placement: dict[str, Any]) -> Deployment:
    """Job with the operators on a host of that many cores; source and sink elsewhere, on a network without delay."""
    ideal = {"latency_ms": 0, "bandwidth_mbps": 1e9}
    hosts = [{**HOST, **ideal}, {**HOST, **ideal, "name": "small", "cpu_percent": 100 * cores}]
    engine = STORM.model_copy(update={"serialise_ns_per_byte": 0, "deserialise_ns_per_byte": 0})
    return chain(servers, RATE_PER_S, hosts=hosts, placement=placement, engine=engine.model_dump(mode="json"))


# streams -------------------------------------------------------------------------------------------------------------
# Laws of tasks with several input streams, and of records that are dealt to subtasks: in turn, by key, forward.
#
# Checked are waits, and by the utilisation law the share of time that operators are busy. There are no links, and no
# windows except a join's.


IN_TURN = ((2, 0.6, 1.0), (2, 0.9, 1.0), (4, 0.6, 0.25), (4, 0.9, 1.0), (16, 0.6, 1.0), (16, 0.9, 1.0))
"""Cases: subtasks, load, scv of the service time."""


def stream_checks() -> Iterator[Check]:
    """All checks of streams."""
    yield from _superposition()
    yield from _joins()
    yield from _in_turn()
    yield from _by_key()
    yield from _forward()
    yield from _between_subtasks()


def _superposition() -> Iterator[Check]:
    for shares, scv in (((1, 1), 1.0), ((6, 1), 1.0), ((1, 1, 1), 0.25), ((8, 3, 1), 0.25)):
        for load in (0.1, 0.6, 0.9):
            service_s = load / RATE_PER_S
            rates = {f"source{k}": RATE_PER_S * each / sum(shares) for k, each in enumerate(shares)}
            yield from latency(
                f"{len(shares)} Poisson streams into M/G/1",
                f"wait at load {load}, scv {scv:g}, rates {':'.join(map(str, shares))}",
                oracles.wait_m_g_1(load, service_s, scv),
                joined(server("queue", service_s, scv), rates, hosts=[LARGE]),
                minus_s=service_s,
                records=6_000 / (1 - load),
                queue=load,
            )


def _joins() -> Iterator[Check]:
    rates = {"left": RATE_PER_S * 6 / 7, "right": RATE_PER_S / 7}
    for load, slide_s in ((0.1, 0.2), (0.6, 0.2), (0.6, 0.05), (0.9, 0.2)):
        window = {"policy": "time", "size_s": 0.2, "slide_s": slide_s}
        join = server("join", load / RATE_PER_S) | {"kind": "join", "window": window, "selectivity": 0.01}
        yield from latency(
            "Join of unequal sides",
            f"age of results at load {load}, window 0.2 s, slide {slide_s:g} s",
            oracles.age_of_pairs(0.2, load, load / RATE_PER_S, 1.0),
            joined(join, rates, hosts=[LARGE]),
            records=12_000 / (1 - load),
            join=load,
        )


def _in_turn() -> Iterator[Check]:
    for parallelism, load, scv in IN_TURN:
        service_s = parallelism * load / RATE_PER_S
        poisson_s = oracles.wait_erlang_m_1(parallelism, load, service_s)
        yield from latency(
            f"In turn to {parallelism} subtasks: Erlang-{parallelism}/G/1",
            f"wait at load {load}, scv {scv:g}",
            poisson_s if scv == 1.0 else oracles.wait_erlang_g_1(parallelism, load, service_s, scv),
            _row([server("queue", service_s, scv)], parallelism),
            minus_s=service_s,
            records=12_000 / (1 - load),
            queue=load,
        )


def _by_key() -> Iterator[Check]:
    for parallelism, load, key_groups in ((4, 0.6, 16), (4, 0.9, None), (16, 0.6, None)):
        service_s = parallelism * load / RATE_PER_S
        yield from latency(
            f"By key to {parallelism} subtasks: M/M/1 each",
            f"wait at load {load}, {'no' if key_groups is None else key_groups} key groups",
            oracles.wait_m_g_1(load, service_s, 1.0),
            _row([server("queue", service_s, 1.0, key_groups)], parallelism, "hash"),
            minus_s=service_s,
            records=12_000 / (1 - load),
            queue=load,
        )


def _forward() -> Iterator[Check]:
    for parallelism, loads in ((4, (0.6, 0.6)), (4, (0.1, 0.9)), (16, (0.6, 0.3))):
        first, second = (parallelism * load / RATE_PER_S for load in loads)
        yield from latency(
            f"Forward, {parallelism} subtasks: tandems of M/M/1",
            f"sojourn at loads {loads[0]}, {loads[1]}",
            first / (1 - loads[0]) + second / (1 - loads[1]),
            _row([server("q0", first), server("q1", second)], parallelism, "forward", sources=parallelism),
            records=12_000 / (1 - max(loads)),
            q0=loads[0],
            q1=loads[1],
        )


def _between_subtasks() -> Iterator[Check]:
    """Checks of subtasks that several producers deal to in turn: nearly Poisson, but no theory is exact."""
    for parallelism, load in ((2, 0.6), (4, 0.6), (4, 0.85), (4, 0.9), (16, 0.6)):
        service_s = parallelism * load / RATE_PER_S
        law, case = f"{parallelism} subtasks in turn to {parallelism}", f"of both stages at load {load}"
        job = _row([server("q0", service_s), server("q1", service_s)], parallelism)
        yield from busy(law, case, job, records=12_000 / (1 - load), q0=load, q1=load)


def _row(stages: list[dict[str, Any]], parallelism: int, how: str | None = None, sources: int = 1) -> Deployment:
    """Job source -> stages of so many subtasks each -> one sink. how: partitioning of all streams but the last."""
    names = [stage["name"] for stage in stages]
    places = {"source": {"h": sources}, **{name: {"h": parallelism} for name in names}}
    return chain(stages, RATE_PER_S, hosts=[LARGE], placement=places, partitioning=dict.fromkeys(names, how))


# the table -----------------------------------------------------------------------------------------------------------


SEEDS = 12
LENGTH = {"small": 0.25, "full": 1.0}
LIMIT_SE = 4.0
"""Limit of a deviation in standard errors if they were known; `limit_se` allows for their estimation."""
CLOSE = 0.005
"""Relative deviation from theory that is always right, however small the standard error."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Outcome of a check: mean and standard error over `SEEDS` seeds."""

    check: Check
    mean: float
    error: float

    @property
    def off_se(self) -> float:
        """Deviation from theory in standard errors."""
        return (self.mean - self.check.expected) / max(self.error, 1e-12 * self.check.expected)

    @property
    def kept(self) -> bool:
        """Whether the deviation is within `limit_se` standard errors, or `CLOSE`."""
        return abs(self.off_se) <= limit_se(SEEDS) or abs(self.mean / self.check.expected - 1) < CLOSE

    @property
    def words(self) -> tuple[str, ...]:
        """Cells of a table, in the order of NUMBERS."""
        theory = f"{self.check.expected:.4g} {self.check.unit}".strip()
        simulated = f"{self.mean:.4g} ± {self.error:.2g}"
        return theory, simulated, f"{self.off_se:+.1f}", "yes" if self.kept else "**no**"


def limit_se(seeds: int, known: float = LIMIT_SE) -> float:
    """Number of standard errors, estimated from `seeds` seeds, that means as much as `known` ones would.

    Student's t of the same probability of a false alarm: 6 in 100,000 for four.
    """
    return float(t.isf(norm.sf(known), seeds - 1))


def examine(cache: Path, scale: str) -> list[Finding]:
    """Findings of all checks, simulated where the folder of finished runs lacks them."""
    listed, found = checks(), []
    results = iter(results_of([run for check in listed for run in check.runs(SEEDS, LENGTH[scale])], cache))
    for check in listed:
        values = np.array([check.read(next(results)) for _ in range(SEEDS)])
        found.append(Finding(check, float(values.mean()), float(values.std(ddof=1) / np.sqrt(SEEDS))))
    return found


def checks() -> list[Check]:
    """Checks of every law that the simulator is held to."""
    return [*queue_checks(), *stream_checks()]


NUMBERS = ("theory", "simulated", "off by s.e.", "kept")


def theory_table(findings: Sequence[Finding]) -> list[tuple[str, ...]]:
    """Header and rows of all cases."""
    return [("law", "case", *NUMBERS), *((each.check.law, each.check.case, *each.words) for each in findings)]


def law_table(findings: Sequence[Finding]) -> list[tuple[str, ...]]:
    """Header and rows, one for each law, with its case that is farthest off; the farthest laws first.

    A case that is not kept counts as farther off than one that is.
    """
    laws: dict[str, list[Finding]] = {}
    for each in sorted(findings, key=lambda each: (each.kept, -abs(each.off_se))):
        laws.setdefault(each.check.law, []).append(each)
    rows = [(law, str(len(cases)), cases[0].check.case, *cases[0].words) for law, cases in laws.items()]
    return [("law", "cases", "farthest off", *NUMBERS), *rows]
