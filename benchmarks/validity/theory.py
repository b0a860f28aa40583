"""The simulator against queueing theory: one `Check` a law, exact and fast side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from benchmarks.validity import oracles
from benchmarks.validity.runs import Job, Result, run_all
from benchmarks.validity.store import Store
from tests.twin.worlds import HOST, chain, queue
from twin.deployment import Deployment
from twin.profiles import STORM
from twin.query import Partitioning
from twin.scenario import Fidelity, RunSettings

RATE_PER_S = 1000.0
SEEDS = {"small": 3, "full": 12}
LENGTH = {"small": 0.25, "full": 0.5}
"""Of exact runs, as a share of what the checks ask for. Fast runs are never shortened: their segments would be too."""
EXACT_LIMIT_SE = 4.0
FAST_LIMIT = 0.07
FAST_TUPLES = 240_000
Read = Callable[[Result], float]


@dataclass(frozen=True, slots=True)
class Check:
    """A law: what a deployment should measure. tuples: offered in an exact run; fast ones get `FAST_TUPLES`."""

    law: str
    case: str
    unit: str
    expected: float
    job: Deployment
    read: Read
    tuples: float = 40_000
    measure: str = "metrics"
    samples: int = 10
    fidelities: tuple[Fidelity, ...] = ("exact", "fast")

    def jobs(self, fidelity: Fidelity, seeds: int, length: float) -> list[Job]:
        """One a seed; a tenth of each run is warm-up. Full-length exact runs are part of the repository."""
        rate = sum(law.mean_rate_per_s for law in self.job.workload.arrivals.values())
        horizon_s = (length * self.tuples if fidelity == "exact" else FAST_TUPLES) / rate
        settings = RunSettings(
            horizon_s=horizon_s, warmup_s=horizon_s / 10, period_s=horizon_s / self.samples, fidelity=fidelity
        )
        return [
            Job(
                f"{self.law}, {self.case}",
                self.job,
                settings.model_copy(update={"seed": seed}),
                self.measure,
                "theory" if length == LENGTH["full"] else "",
            )
            for seed in range(seeds)
        ]


@dataclass(frozen=True, slots=True)
class Finding:
    """A check's outcome: mean and standard error over the seeds, by fidelity."""

    check: Check
    mean: dict[Fidelity, float]
    error: dict[Fidelity, float]

    def off_se(self, fidelity: Fidelity) -> float:
        """Deviation from theory in standard errors."""
        return (self.mean[fidelity] - self.check.expected) / max(self.error[fidelity], 1e-12 * self.check.expected)

    def off(self, fidelity: Fidelity) -> float:
        """Relative deviation from theory."""
        return self.mean[fidelity] / self.check.expected - 1

    def kept(self, fidelity: Fidelity) -> bool:
        """Exact: within four standard errors, or half a percent. Fast: within 7 % and two standard errors."""
        if fidelity == "exact":
            return abs(self.off_se("exact")) <= EXACT_LIMIT_SE or abs(self.off("exact")) < 0.005
        slack = 2 * self.error["fast"] / self.check.expected
        return abs(self.off("fast")) <= FAST_LIMIT + slack


def examine(store: Store, workers: int, scale: str) -> list[Finding]:
    """All checks, simulated where the store lacks them."""
    seeds = SEEDS[scale]
    listed = [(check, fidelity) for check in checks() for fidelity in check.fidelities]
    wanted = [job for check, fidelity in listed for job in check.jobs(fidelity, seeds, LENGTH[scale])]
    results = run_all(wanted, store, workers, "runs against theory")
    found: dict[int, Finding] = {}
    for number, (check, fidelity) in enumerate(listed):
        values = np.array([check.read(each) for each in results[number * seeds : (number + 1) * seeds]])
        finding = found.setdefault(id(check), Finding(check, {}, {}))
        finding.mean[fidelity] = float(values.mean())
        finding.error[fidelity] = float(values.std(ddof=1) / np.sqrt(seeds))
    return list(found.values())


def jobs(scale: str, fidelity: Fidelity) -> list[Job]:
    """The runs of all checks."""
    all_checks = (check for check in checks() if fidelity in check.fidelities)
    return [job for check in all_checks for job in check.jobs(fidelity, SEEDS[scale], LENGTH[scale])]


def checks() -> list[Check]:
    """Every law that the simulator is held to."""
    found = [*_single_queues(), *_tandems(), *_blocking(), *_processor_sharing(), *_littles_law(), *_saturation()]
    return found + list(_many_servers()) if can_share() else found


def can_share() -> bool:
    """Whether several replicas can serve one queue, which M/M/c is."""
    return "shared" in get_args(Partitioning)


def _mean_ms(kind: str, minus_s: float = 0.0) -> Read:
    def read(result: Result) -> float:
        return 1e3 * (result[f"{kind}_latency_s"]["mean"] - minus_s)

    return read


def _single_queues() -> Iterator[Check]:
    for law, scv in (("M/D/1", 0.0), ("M/G/1, scv 0.25", 0.25), ("M/M/1", 1.0), ("M/G/1, scv 4", 4.0)):
        for load in (0.5, 0.8, 0.95):
            service_s = load / RATE_PER_S
            yield Check(
                law,
                f"wait at load {load}",
                "ms",
                1e3 * oracles.wait_m_g_1(load, service_s, scv),
                queue(RATE_PER_S, load, scv),
                _mean_ms("processing", service_s),
                tuples=8_000 / (1 - load),
            )
    for load in (0.5, 0.8):
        service_s = load / RATE_PER_S
        constant = {"law": "constant", "rate_per_s": RATE_PER_S}
        yield Check(
            "D/M/1",
            f"wait at load {load}",
            "ms",
            1e3 * oracles.wait_d_m_1(load, service_s),
            chain([_server("queue", service_s)], constant),
            _mean_ms("processing", service_s),
        )


def _tandems() -> Iterator[Check]:
    for loads in ((0.5, 0.8), (0.8, 0.8, 0.8), (0.9, 0.5)):
        servers = [_server(f"q{k}", load / RATE_PER_S) for k, load in enumerate(loads)]
        expected = sum(load / RATE_PER_S / (1 - load) for load in loads)
        yield Check(
            "Tandem (Jackson)",
            "sojourn at loads " + ", ".join(map(str, loads)),
            "ms",
            1e3 * expected,
            chain(servers, RATE_PER_S),
            _mean_ms("processing"),
            tuples=8_000 / (1 - max(loads)),
        )


def _blocking() -> Iterator[Check]:
    rates = (1 / 0.7e-3, 1 / 0.6e-3)
    for places in (1, 4):
        yield Check(
            "Blocking tandem",
            f"sojourn, loads 0.7, 0.6, {places} places",
            "ms",
            1e3 * oracles.sojourn_blocking_tandem(RATE_PER_S, rates, places),
            _two_in_a_row(rates, RATE_PER_S, places),
            _mean_ms("e2e"),
        )
    for places in (1, 4, 64):
        yield Check(
            "Blocking tandem",
            f"throughput, saturated, equal servers, {places} places",
            "/s",
            oracles.throughput_blocking_tandem((1000.0, 1000.0), places),
            _two_in_a_row((1000.0, 1000.0), 2000.0, places),
            lambda result: float(result["throughput_per_s"]),
        )


def _two_in_a_row(service_rates: tuple[float, float], rate: float, places: int) -> Deployment:
    servers = [_server(f"q{k}", 1 / each) for k, each in enumerate(service_rates)]
    return chain(servers, rate, engine=STORM.model_copy(update={"channel_tuples": places}).model_dump(mode="json"))


def _processor_sharing() -> Iterator[Check]:
    for load, replicas, scv in ((0.3, 8, 1.0), (0.5, 64, 1.0), (0.5, 64, 4.0), (0.8, 64, 0.0)):
        service_s = load / RATE_PER_S
        yield Check(
            "M/G/1 processor sharing",
            f"sojourn at load {load}, scv {scv:g}, {replicas} replicas on a core",
            "ms",
            1e3 * oracles.sojourn_processor_sharing(load, service_s),
            _on_a_small_host([_server("ps", service_s, scv)], 1.0, {"ps": {"small": replicas}}),
            _mean_ms("processing"),
        )
    service_s = 2 * 0.8 / RATE_PER_S
    yield Check(
        "Processor sharing, 2 cores",
        "sojourn at load 0.8, 64 replicas",
        "ms",
        1e3 * (oracles.wait_m_m_c(2, 0.8, service_s) + service_s),
        _on_a_small_host([_server("ps", service_s)], 2.0, {"ps": {"small": 64}}),
        _mean_ms("processing"),
    )
    for loads in ((0.4, 0.4), (0.6, 0.3), (0.3, 0.6)):
        rates = (RATE_PER_S / loads[0], RATE_PER_S / loads[1])
        servers = [_server(f"q{k}", load / RATE_PER_S) for k, load in enumerate(loads)]
        yield Check(
            "Two operators on a core",
            f"sojourn at loads {loads[0]}, {loads[1]}",
            "ms",
            1e3 * oracles.sojourn_shared_core(RATE_PER_S, rates),
            _on_a_small_host(servers, 1.0, {"q0": "small", "q1": "small"}),
            _mean_ms("processing"),
            tuples=80_000,
        )


def _littles_law() -> Iterator[Check]:
    for load in (0.5, 0.8, 0.95):
        service_s = load / RATE_PER_S

        def ratio(result: Result, service_s: float = service_s) -> float:
            wait_s = result["processing_latency_s"]["mean"] - service_s
            return float(result["queue_length"]["queue"] / result["throughput_per_s"] / wait_s)

        yield Check(
            "Little's law",
            f"sampled queue / (rate × wait), M/M/1 at load {load}",
            "",
            1.0,
            queue(RATE_PER_S, load, 1.0),
            ratio,
            tuples=8_000 / (1 - load),
            measure="queue lengths",
            samples=2000,
            fidelities=("exact",),  # segments keep the wait they hide in the stamps, not in the queues
        )


def _saturation() -> Iterator[Check]:
    slow = chain([_server("slow", 1e-3)], 2 * RATE_PER_S)
    yield Check(
        "Saturated server",
        "throughput at load 2",
        "/s",
        1000.0,
        slow,
        lambda result: float(result["throughput_per_s"]),
    )
    yield Check(
        "Saturated server",
        "processing latency behind 1,024 credits",
        "ms",
        # the tuple that blocks the source, and those queued and in service before it
        1e3 * (STORM.channel_tuples + 2) * 1e-3,
        slow,
        _mean_ms("processing"),
        tuples=120_000,
    )


def _many_servers() -> Iterator[Check]:
    for servers in (2, 4, 16):
        for load in (0.5, 0.8, 0.95):
            service_s = servers * load / RATE_PER_S
            job = chain([_server("queue", service_s)], RATE_PER_S, placement={"queue": {"h": servers}})
            streams = tuple(
                each.model_copy(update={"partitioning": "shared"}) if each.consumer == "queue" else each
                for each in job.query.streams
            )
            job = job.model_copy(update={"query": job.query.model_copy(update={"streams": streams})})
            yield Check(
                f"M/M/{servers}",
                f"wait at load {load}",
                "ms",
                1e3 * oracles.wait_m_m_c(servers, load, service_s),
                job,
                _mean_ms("processing", service_s),
                tuples=8_000 / (1 - load),
            )


def _server(name: str, service_s: float, scv: float = 1.0) -> dict[str, Any]:
    return {"kind": "filter", "name": name, "selectivity": 1, "service_time_s": service_s, "service_scv": scv}


def _on_a_small_host(servers: list[dict[str, Any]], cores: float, placement: dict[str, Any]) -> Deployment:
    """The operators on a host of that many cores; source and sink elsewhere, over a network that takes no time."""
    ideal = {"latency_ms": 0, "bandwidth_mbps": 1e9}
    hosts = [{**HOST, **ideal}, {**HOST, **ideal, "name": "small", "cpu_percent": 100 * cores}]
    engine = STORM.model_copy(update={"serialise_ns_per_byte": 0, "deserialise_ns_per_byte": 0})
    return chain(servers, RATE_PER_S, hosts=hosts, placement=placement, engine=engine.model_dump(mode="json"))


def theory_table(findings: Sequence[Finding]) -> list[tuple[str, ...]]:
    """Header and rows."""
    rows: list[tuple[str, ...]] = [
        ("law", "case", "theory", "exact", "off by s.e.", "kept", "fast", "off by %", "kept")
    ]
    for each in findings:
        cells: list[str] = []
        for fidelity in ("exact", "fast"):
            if fidelity not in each.mean:
                cells += ["-", "-", "-"]
                continue
            off = f"{each.off_se('exact'):+.1f}" if fidelity == "exact" else f"{100 * each.off('fast'):+.1f}"
            value = f"{each.mean[fidelity]:.4g} ± {each.error[fidelity]:.2g}"
            cells += [value, off, "yes" if each.kept(fidelity) else "**no**"]
        check = each.check
        rows.append((check.law, check.case, f"{check.expected:.4g} {check.unit}".strip(), *cells))
    return rows
