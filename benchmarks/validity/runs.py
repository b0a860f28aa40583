"""Many simulations on a few processes: cheap ones first, each result handed over as soon as it is there."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

import numpy as np

from scenarios.executing.progress import Lines, Progress, bar
from twin.deployment import Deployment
from twin.rates.model import RateModel
from twin.run import Run
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate

if TYPE_CHECKING:
    from benchmarks.validity.store import Store

Result = Mapping[str, Any]
"""The metrics of a run as plain values (latencies as mappings, or None), with cpu_s, crashed, warnings, operators (by
name, the shares of time busy and backpressured, and the rate in) and what its measure adds."""
DIGITS = 9
"""Significant ones, of all numbers in a result."""


def _nothing(_: Run) -> dict[str, Any]:
    return {}


def _lengths(run: Run) -> dict[str, Any]:
    """Mean queue length by operator at the ends of the periods."""
    names = [each.operator for each in run.operators]
    warmup_s = run.manifest["warmup_s"]
    rows = [row for row in run.operator_rows if row["start_s"] >= warmup_s]
    return {
        "queue_length": {
            name: float(np.mean([row["queueLength"] for row in rows if row["operator"] == name])) for name in names
        }
    }


def _operators(run: Run) -> dict[str, Any]:
    return {
        each.operator: {
            "busy": round(each.busy, 6),
            "backpressured": round(each.backpressured, 6),
            "in_per_s": each.rate_in_per_s,
        }
        for each in run.operators
    }


MEASURES: dict[str, Callable[[Run], dict[str, Any]]] = {
    "metrics": _nothing,
    "queue lengths": _lengths,
}
"""What is kept of a run beside what all keep, by the name that a job asks for."""


@dataclass(frozen=True, slots=True)
class Job:
    """One simulation.

    label: for people who look into the store.
    """

    label: str
    deployment: Deployment
    settings: RunSettings
    measure: str = "metrics"

    @property
    def cost(self) -> float:
        """Rough work: tuples through all operators, by the rate model."""
        job = self.deployment
        answer = RateModel(self.settings.horizon_s).answer(job, [job.plan])
        return self.settings.horizon_s * float(answer.in_per_s.sum())


def run_job(job: Job) -> dict[str, Any] | str:
    """Simulates; what the report needs of it, as JSON; or in words, why there is nothing."""
    try:
        run = simulate(Scenario.of(job.deployment, job.settings))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    found = {
        **asdict(run.metrics),
        "cpu_s": round(run.cpu_s, 2),
        "crashed": run.crashed,
        "warnings": list(run.warnings),
        "operators": _operators(run),
        **MEASURES[job.measure](run),
    }
    return {name: rounded(value) for name, value in found.items()}


def rounded(value: Any) -> Any:
    """The same with all numbers in it to `DIGITS` significant digits."""
    match value:
        case float():
            return float(f"{value:.{DIGITS}g}")
        case dict():
            return {name: rounded(each) for name, each in value.items()}
        case list():
            return [rounded(each) for each in value]
        case _:
            return value


def run_all(jobs: Sequence[Job], store: Store, workers: int, what: str = "") -> list[Result]:
    """The results of all jobs, in their order; those in the store are not run again. Interrupt and call again freely.

    what: names the jobs in the display of progress; empty: none. Raises RuntimeError, after all others are done, if
    runs raised (broke a law of conservation, say): no report is written over that.
    """
    missing = {store.key(job): job for job in jobs if store.get(job) is None}
    costs = {key: job.cost for key, job in missing.items()}
    todo = {key: missing[key] for key in sorted(missing, key=costs.__getitem__)}
    if todo:
        total, done, failed = sum(costs.values()), 0.0, []
        with shown(f"% of {len(todo)} {what}") if what else nullcontext(_unheard) as report:
            for key, result in _finished(todo, workers):
                job = todo[key]
                if isinstance(result, str):
                    failed.append(f"{job.label} (seed {job.settings.seed}): {result}")
                else:
                    store.put(job, result)
                done += costs[key]
                report(int(100 * done / total), 100)
        if failed:
            raise RuntimeError(f"{len(failed)} runs failed; the others are kept:\n" + "\n".join(sorted(failed)))
    found = [store.get(job) for job in jobs]
    return [each for each in found if each is not None]


def _unheard(done: int, total: int) -> None:
    """Progress that nobody watches."""


def _finished(jobs: Mapping[str, Job], workers: int) -> Iterator[tuple[str, dict[str, Any] | str]]:
    """The results as they come, by the jobs' keys."""
    if workers == 1:
        yield from ((key, run_job(job)) for key, job in jobs.items())
        return
    # spawned, not forked: the progress bar has a thread
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
    try:
        futures = {pool.submit(run_job, job): key for key, job in jobs.items()}
        for future in as_completed(futures):
            yield futures[future], future.result()
    except BaseException:
        for process in list(pool._processes.values()):
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


@contextmanager
def shown(what: str) -> Iterator[Progress]:
    """A bar with the time left for a person at a terminal, a line at every tenth elsewhere; on stderr."""
    if sys.stderr.isatty():
        with bar(what) as report:
            yield report
        return
    with Lines(lambda text: print(text, file=sys.stderr, flush=True)).progress(what) as report:
        yield report
