"""The kernel against the engine: traces of the pinned jobs and of random ordinary ones, equal to the last bit."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from unittest.mock import patch

from benchmarks.validity.ordinary import ordinary_jobs
from benchmarks.validity.pinned_jobs import jobs
from benchmarks.validity.pins import SETTINGS
from twin import simulation
from twin.run import Run
from twin.scenario import Scenario

TABLES = ("operator_rows", "host_rows", "link_rows", "event_rows")
FIRST_SEED = 9_800_000
RANDOM_JOBS = {"small": 5, "full": 60}


def scenarios(scale: str) -> Iterator[tuple[str, str, Scenario]]:
    """Sort, name and job: small ones of every kind, and random ones."""
    for name, job in jobs().items():
        yield "small, of every kind", name, Scenario.of(job, SETTINGS)
    for drawn in islice(ordinary_jobs(FIRST_SEED), RANDOM_JOBS[scale]):
        yield "random ordinary ones", f"ordinary {drawn.seed}", Scenario.of(drawn.deployment, drawn.settings)


def difference(engine: Run, kernel: Run) -> str:
    """Where two runs of one scenario differ first; empty if they are equal to the last bit."""
    for table in TABLES:
        pairs = zip(getattr(engine, table), getattr(kernel, table), strict=False)
        at = next((number for number, (one, other) in enumerate(pairs) if one != other), None)
        if at is not None or len(getattr(engine, table)) != len(getattr(kernel, table)):
            return f"{table}, row {'of its own' if at is None else at}"
    return ""


def in_engine(scenario: Scenario) -> Run:
    """Record by record in SimPy, without the kernel."""
    with patch.object(simulation, "advance", lambda world, until_s: world.env.run(until_s)):
        return simulation.simulate(scenario)


def kernel_table(scale: str) -> list[tuple[str, ...]]:
    """Header and rows: one for all jobs of a sort that show no difference, and one for each job that does."""
    alike: dict[str, list[tuple[int, float, float]]] = {}
    different: list[tuple[str, ...]] = []
    for sort, name, scenario in scenarios(scale):
        one, other = in_engine(scenario), simulation.simulate(scenario)
        wrong, took = difference(one, other), (one.metrics.tuples_out, one.cpu_s, other.cpu_s)
        if wrong:
            different.append(_row(name, 1, took, wrong))
        else:
            alike.setdefault(sort, []).append(took)
    found = [_row(sort, len(each), tuple(map(sum, zip(*each, strict=True))), "") for sort, each in alike.items()]
    return [("jobs", "", "results", "engine (CPU s)", "kernel (CPU s)", "first difference", "kept"), *found, *different]


def _row(name: str, jobs: int, took: tuple[float, ...], wrong: str) -> tuple[str, ...]:
    results, engine_s, kernel_s = took
    times = f"{engine_s:.2f}", f"{kernel_s:.2f}"
    return (name, str(jobs), f"{results:,}", *times, wrong or "-", "**no**" if wrong else "yes")
