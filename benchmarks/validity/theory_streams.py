"""Laws of tasks with several input streams, and of records that are dealt to subtasks: in turn, by key, forward.

Checked are waits, and by the utilisation law the share of time that operators are busy. There are no links, and no
windows except a join's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.validity import oracles
from benchmarks.validity.check import LARGE, RATE_PER_S, Check, busy, latency, server
from tests.twin.worlds import chain, joined
from twin.deployment import Deployment

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
