"""What a job bears, by bisection of runs, by `twin capacity` and by the rate model; and latencies below that."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.limits.jobs import random_job
from optimizers.requirements import at_rate
from streamtwin import capacity
from twin.atomic import write_text
from twin.errors import BadInput
from twin.rates.model import RateModel
from twin.scenario import Scenario
from twin.simulation import simulate

PRECISION = 0.01
"""Width of the bracket of each limit, as a share."""
FARTHEST = 64.0
"""Factor on the rates, up or down, beyond which no limit is looked for."""
PARTS = (0.5, 0.8)
"""Shares of the limit at which latencies are compared."""
SEEDS = 2
"""Number of runs for each latency, and of repetitions for `twin capacity`, the fewest that it takes."""


def largest(holds: Callable[[float], bool], start: float = 1.0) -> float:
    """Largest load at which something holds that holds below it: the middle of a bracket; nan if none is found."""
    good, bad = 0.0, math.inf
    load = start
    while bad > good * (1.0 + PRECISION):
        if holds(load):
            good = load
        else:
            bad = load
        if good > start * FARTHEST or bad < start / FARTHEST:
            return math.nan
        load = good * 2.0 if bad == math.inf else bad / 2.0 if good == 0.0 else math.sqrt(good * bad)
    return math.sqrt(good * bad)


def reads_all(job: Scenario) -> bool:
    """Whether a run of the job reads what comes, and has results; queues within the job may still grow at its end."""
    metrics = simulate(job).metrics
    return metrics.success and not metrics.backpressured


def predicted(job: Scenario, metric: str) -> float:
    """A metric by the rate model."""
    return float(RateModel().predict(job, [job.plan])[metric][0])


def asked(job: Scenario) -> dict[str, Any]:
    """All figures of a job, as JSON holds them; see `__main__`."""
    limit = largest(lambda load: reads_all(at_rate(job, load).with_run(seed=1)))
    known = job if math.isnan(limit) else at_rate(job, limit)
    found: dict[str, Any] = {"runs": limit, "unseen": list(RateModel().blind_to(known))}
    found["rates"] = largest(lambda load: predicted(at_rate(job, load), "backpressured") < 0.5)
    if math.isnan(limit):
        return found
    try:
        answer = capacity(job, find_max="load", replications=SEEDS, precision=2 * PRECISION, seed=2).result
        found["capacity"] = answer.value if answer.status == "found" else answer.status
    except BadInput as error:
        found["capacity"] = str(error)
    for part in PARTS:
        cases = [at_rate(job, part * limit).with_run(seed=seed) for seed in range(3, 3 + SEEDS)]
        ages_s = [age.mean for each in cases if (age := simulate(each).metrics.processing_latency_s) is not None]
        found[f"latency {part}"] = [predicted(cases[0], "processing_latency_s"), float(np.mean(ages_s or [math.nan]))]
    return found


def kept(folder: Path, seed: int, number: int) -> None:
    """Asks one job, and keeps the answers, unless they are there."""
    path = folder / f"{seed}-{number}.json"
    if not path.exists():
        write_text(path, json.dumps(asked(random_job(seed, number)), indent=1))


def factors(found: Mapping[str, Any]) -> dict[str, float]:
    """Factors of at least 1 between what was asked and what runs show; inf where one of them has no answer."""
    pairs = {name: (found.get(name), found["runs"]) for name in ("capacity", "rates")}
    pairs |= {f"latency {part}": found.get(f"latency {part}", (None, None)) for part in PARTS}
    return {name: _factor(*pair) for name, pair in pairs.items()}


def _factor(said: object, right: object) -> float:
    known = all(isinstance(each, int | float) and 0.0 < each < math.inf for each in (said, right))
    return math.exp(abs(math.log(said / right))) if known else math.inf  # type: ignore[operator]
