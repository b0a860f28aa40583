"""What a job bears, by bisection of runs, by `twin capacity` and by the rate model; and latencies below that."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.limits.jobs import random_job
from optimizers.objectives import at_rate
from scenarios.beside import doubts
from streamtwin import capacity
from twin.errors import BadInput
from twin.files import write_text
from twin.randomness import child_seed
from twin.rates.model import RateModel
from twin.scenario import Scenario
from twin.simulation import simulate

PRECISION = 0.01
"""Width of the bracket of each limit, as a share."""
FARTHEST = 64.0
"""Factor on the rates, up or down, beyond which no limit is looked for."""
PARTS = (0.5, 0.8)
"""Shares of the limit at which latencies are compared."""
SEED, SEEDS = 2, 2
"""Seed of all runs, and number of limits by bisection, of runs for each latency, and of repetitions for `twin
capacity`, the fewest that it takes. They have the same seeds, as chance alone moves the limits of some jobs by a
tenth."""
BEYOND = (1.1, 1.5, 2.0, 4.0)
"""Factors on a border at which it is seen whether it was one, or a run that failed by chance."""


def largest(holds: Callable[[float], bool], start: float = 1.0) -> float:
    """Largest load at which something holds, by bisection: the middle of a bracket; nan if none is found. Where it
    holds at a load of `BEYOND` too, the search goes on from there."""
    border = _border(holds, start)
    if math.isnan(border):
        return border
    above = next((border * beyond for beyond in BEYOND[::-1] if holds(border * beyond)), None)
    return border if above is None else largest(holds, above)


def _border(holds: Callable[[float], bool], start: float) -> float:
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
    """All figures of a job, as JSON holds them; see `__main__`. unseen: what makes each prediction doubtful."""
    seeds, model = [child_seed(SEED, number) for number in range(SEEDS)], RateModel()
    limits = [largest(partial(_holds, job, seed)) for seed in seeds]
    limit, unseen = float(np.mean(limits)), {"rates": list(model.blind_to(job))}
    found: dict[str, Any] = {"runs": limit, "by seed": limits, "unseen": unseen}
    found["rates"] = largest(lambda load: predicted(at_rate(job, load), "backpressured") < 0.5)
    try:
        answer = capacity(job, find_max="load", replications=SEEDS, precision=2 * PRECISION, seed=SEED).result
        found["capacity"] = answer.value if answer.status == "found" else answer.status
    except BadInput as error:
        found["capacity"] = str(error)
    if math.isnan(limit):
        return found
    for part in PARTS:
        known = at_rate(job, part * limit)
        ages_s = [simulate(known.with_run(seed=seed)).metrics.processing_latency_s for seed in seeds]
        age_s = float(np.mean([age.mean for age in ages_s if age is not None] or [math.nan]))
        found[f"latency {part}"] = [predicted(known, "processing_latency_s"), age_s]
        unseen[f"latency {part}"] = list(doubts(model, known))
    return found


def _holds(job: Scenario, seed: int, load: float) -> bool:
    return reads_all(at_rate(job, load).with_run(seed=seed))


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
