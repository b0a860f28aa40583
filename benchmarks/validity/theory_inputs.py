"""Laws of tasks into which several streams lead: unions and joins. No links, and no windows but a join's.

The waiting, and by the utilisation law the share of time that operators are busy.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.validity import oracles
from benchmarks.validity.check import LARGE, RATE_PER_S, Check, mean_ms, server, with_busy
from tests.twin.worlds import deployment, sink, source


def input_checks() -> Iterator[Check]:
    """All of them."""
    yield from _superposition()
    yield from _joins()


def _superposition() -> Iterator[Check]:
    for shares, scv in (((1, 1), 1.0), ((6, 1), 1.0), ((1, 1, 1), 0.25), ((8, 3, 1), 0.25)):
        for load in (0.1, 0.6, 0.9):
            service_s = load / RATE_PER_S
            rates = {f"source{k}": RATE_PER_S * each / sum(shares) for k, each in enumerate(shares)}
            job = deployment(
                [*map(source, rates), server("queue", service_s, scv), sink()],
                [*((name, "queue") for name in rates), ("queue", "sink")],
                rates,
                hosts=[LARGE],
            )
            yield from with_busy(
                Check(
                    f"{len(shares)} Poisson streams into M/G/1",
                    f"wait at load {load}, scv {scv:g}, rates {':'.join(map(str, shares))}",
                    "ms",
                    1e3 * oracles.wait_m_g_1(load, service_s, scv),
                    job,
                    mean_ms("processing", service_s),
                    tuples=6_000 / (1 - load),
                ),
                queue=load,
            )


def _joins() -> Iterator[Check]:
    for load, slide_s in ((0.1, 0.2), (0.6, 0.2), (0.6, 0.05), (0.9, 0.2)):
        service_s = load / RATE_PER_S
        rates = {"left": RATE_PER_S * 6 / 7, "right": RATE_PER_S / 7}
        window = {"policy": "time", "size_s": 0.2, "slide_s": slide_s}
        join = {"kind": "join", "name": "join", "window": window, "selectivity": 0.01, "service_time_s": service_s}
        job = deployment(
            [*map(source, rates), {**join, "service_scv": 1.0}, sink()],
            [("left", "join"), ("right", "join"), ("join", "sink")],
            rates,
            hosts=[LARGE],
        )
        yield from with_busy(
            Check(
                "Join of unequal sides",
                f"age of results at load {load}, window 0.2 s, slide {slide_s:g} s",
                "ms",
                1e3 * oracles.age_of_pairs(0.2, load, service_s, 1.0),
                job,
                mean_ms("processing"),
                tuples=12_000 / (1 - load),
            ),
            join=load,
        )
