"""Laws of single queues, of queues in a row, of subtasks that share a core or a queue."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.validity import oracles
from benchmarks.validity.check import RATE_PER_S, Check, latency, server, throughput
from benchmarks.validity.runs import Result
from tests.twin.worlds import HOST, chain, dealt, queue
from twin.deployment import Deployment
from twin.profiles import STORM


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
