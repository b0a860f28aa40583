"""How long windows over event time wait for what is late: for the slack of sources, and for their news of the time."""

from __future__ import annotations

import numpy as np

from twin.deployment import Deployment
from twin.kinds.ages import Disorder
from twin.query import AnyOperator


def disorder_of(deployment: Deployment, name: str) -> Disorder:
    """Of what a first window over event time waits for; what comes to any other was waited for already."""
    query = deployment.query
    upstream = [query.operator(each) for each in query.ancestors(name)]
    timed = [each for each in upstream if each.needs_event_time and each.hands_over == "windows"]
    operator = query.operator(name)
    if not operator.needs_event_time or operator.hands_over != "windows" or timed:
        return Disorder()
    sources = [each for each in upstream if each.is_source]
    waits_s = max(getattr(each, "slack_s", 0.0) + _behind_s(deployment, each) for each in sources)
    return Disorder(max(getattr(each, "disorder_s", 0.0) for each in sources), waits_s)


def _behind_s(deployment: Deployment, source: AnyOperator) -> float:
    """By how much the newest event time that a replica of a source has read is behind: with disorder D at rate r, the
    least of all t + D U since, which is above x with a chance of exp(-r x^2 / 2D)."""
    law = deployment.workload.arrivals[source.name]
    per_s = law.mean_rate_per_s / deployment.plan.replicas(source.name)
    return float(np.sqrt(np.pi * getattr(source, "disorder_s", 0.0) / 2.0 / max(per_s, 1e-12)))
