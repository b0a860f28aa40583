"""What one event costs, by the way SimPy is used: why the hot path reuses events. Run: python -m benchmarks.kernel"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator

import simpy

from benchmarks.table import print_table
from twin.engine.alarm import Alarm

EVENTS = 200_000


def with_process(env: simpy.Environment) -> None:
    """One process that yields timeouts."""

    def run() -> Generator[simpy.Event, object, None]:
        for _ in range(EVENTS):
            yield env.timeout(1.0)

    env.process(run())


def with_callback(env: simpy.Environment) -> None:
    """A callback on a new timeout each time."""
    left = [EVENTS]

    def ring(_: object) -> None:
        left[0] -= 1
        if left[0]:
            env.timeout(1.0).callbacks.append(ring)

    env.timeout(1.0).callbacks.append(ring)


def with_alarm(env: simpy.Environment) -> None:
    """A callback on one event that is scheduled again."""
    left = [EVENTS]

    def ring(alarm: Alarm) -> None:
        left[0] -= 1
        if left[0]:
            alarm.set(env.now + 1.0)

    Alarm(env, ring).set(1.0)


def with_store(env: simpy.Environment) -> None:
    """A producer and a consumer process with a Store between them; an event is one item."""
    store = simpy.Store(env, capacity=10)

    def produce() -> Generator[simpy.Event, object, None]:
        for item in range(EVENTS):
            yield store.put(item)

    def consume() -> Generator[simpy.Event, object, None]:
        for _ in range(EVENTS):
            yield store.get()

    env.process(produce())
    env.process(consume())


def seconds(build: Callable[[simpy.Environment], None]) -> float:
    """Best CPU time of three runs."""
    best = float("inf")
    for _ in range(3):
        env = simpy.Environment()
        build(env)
        started = time.process_time()
        env.run()
        best = min(best, time.process_time() - started)
    return best


def main() -> None:
    """Prints ns an event and the ratio to the reused event."""
    ways = {"process + Store": with_store, "process": with_process, "callback": with_callback, "alarm": with_alarm}
    times = {name: seconds(build) for name, build in ways.items()}
    rows = [(name, 1e9 * t / EVENTS, t / times["alarm"]) for name, t in times.items()]
    print_table(f"SimPy {simpy.__version__}, {EVENTS} events", ("way", "ns/event", "ratio to alarm"), rows)


if __name__ == "__main__":
    main()
