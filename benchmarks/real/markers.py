"""Ages of latency markers by operator, by the rate model: they wait in channels and lines, and pass windows by."""

from __future__ import annotations

import numpy as np

from twin.rates.model import RateModel
from twin.scenario import Scenario


def marker_ages_s(job: Scenario) -> dict[str, float]:
    """Mean age by operator, over its streams; 0 at sources."""
    answer = RateModel().answer(job, [job.plan])
    steps_s = dict(zip(answer.operators, (answer.channel_s[0] + answer.queue_s[0]).tolist(), strict=True))
    found: dict[str, float] = {}
    for name in answer.operators:  # in data-flow order
        feeds = [found[each.producer] for each in job.query.inputs(name)]
        found[name] = float(np.mean(feeds)) + steps_s[name] if feeds else 0.0
    return found
