"""Cases of the comparison as a user of SimPy would write them: processes, resources and stores, nothing exotic.

Random numbers come from Python's `random`, which SimPy's own examples use and which is the fastest for single draws.
"""

from __future__ import annotations

import random
from collections.abc import Generator
from typing import Any

import simpy

from benchmarks.peers import cases

Steps = Generator[simpy.Event, object, None]


def run(case: str, customers: int, seed: int) -> float:
    """Answer of a case, computed with SimPy."""
    return {"loss": _loss, "tandem": _tandem, "pipeline": _pipeline}[case](customers, random.Random(seed))


def _loss(customers: int, rng: random.Random) -> float:
    """Loss case: a process for each customer, and a Resource with three slots."""
    env = simpy.Environment()
    servers = simpy.Resource(env, capacity=cases.LOSS_SERVERS)
    waits: list[float] = []

    def customer() -> Steps:
        came = env.now
        with servers.request() as request:
            yield request
            waits.append(env.now - came)
            yield env.timeout(rng.expovariate(1.0))

    def arrivals() -> Steps:
        for _ in range(customers):
            yield env.timeout(rng.expovariate(cases.LOSS_RATE))
            if servers.count + len(servers.queue) < cases.LOSS_PLACES:
                env.process(customer())

    env.process(arrivals())
    env.run()
    return sum(waits) / len(waits)


def _tandem(customers: int, rng: random.Random) -> float:
    """Tandem case: a process and a Store for each server. The second Store is bounded, so putting into it blocks."""
    env = simpy.Environment()
    first, second = simpy.Store(env), simpy.Store(env, capacity=cases.TANDEM_PLACES)
    sojourns: list[float] = []
    rates = [1 / each for each in cases.TANDEM_SERVICES_S]

    def arrivals() -> Steps:
        for _ in range(customers):
            yield env.timeout(rng.expovariate(cases.TANDEM_RATE))
            first.put(env.now)

    def serve_first() -> Steps:
        while True:
            came = yield first.get()
            yield env.timeout(rng.expovariate(rates[0]))
            yield second.put(came)

    def serve_second() -> Steps:
        while True:
            came: Any = yield second.get()
            yield env.timeout(rng.expovariate(rates[1]))
            sojourns.append(env.now - came)

    for process in (arrivals, serve_first, serve_second):
        env.process(process())
    env.run()
    return sum(sojourns) / len(sojourns)


def _pipeline(customers: int, rng: random.Random) -> float:
    """Pipeline case: source, map and sink are processes with bounded Stores between; records are time stamps."""
    env = simpy.Environment()
    to_map = simpy.Store(env, capacity=cases.PIPELINE_PLACES)
    to_sink = simpy.Store(env, capacity=cases.PIPELINE_PLACES)
    total, count = 0.0, 0

    def source() -> Steps:
        for _ in range(customers):
            yield env.timeout(rng.expovariate(cases.PIPELINE_RATE))
            yield to_map.put(env.now)

    def mapper() -> Steps:
        while True:
            came = yield to_map.get()
            yield env.timeout(rng.expovariate(1 / cases.PIPELINE_SERVICE_S))
            yield to_sink.put(came)

    def sink() -> Steps:
        nonlocal total, count
        while True:
            came: Any = yield to_sink.get()
            total += env.now - came
            count += 1

    for process in (source, mapper, sink):
        env.process(process())
    env.run()
    return 1e6 * total / count
