"""Wait of windows over event time for watermarks: until each subtask of a source has read a record from after their
end. Letters at the end of a name are the axes of `twin.rates.layout`."""

from __future__ import annotations

import numpy as np

from twin.kinds.ages import IN_ORDER, Disorder
from twin.rates.layout import Layout
from twin.rates.load import Load

NODES, WEIGHTS = np.polynomial.legendre.leggauss(48)
"""Points and weights of integrals from -1 to 1."""


def watermarks(layout: Layout, found: Load, o: int) -> Disorder:
    """Disorder of what comes to an operator, and as slack, the seconds for which its windows wait after their end [N].

    A source's subtask reads r records a second, each up to d seconds after its event time. Of those that it reads t
    seconds after the end of a window and the slack, a share min(1, t / d) is from after the end: the first of them
    moves its watermark there. The mean of the largest of independent times is the integral of the probability that one
    of them is longer than t, here over all t = scale x / (1 - x).
    """
    job, sources = layout.job, layout.job.windows.awaited_o[o]
    if not sources:
        return IN_ORDER
    each_on = np.maximum(found.in_on, 1e-12) / layout.replicas_on
    scale_s = np.max([1.0 / each_on[k] + np.sqrt(each.disorder_s / each_on[k]) for k, each in sources.items()], axis=0)
    slack_s = max(each.slack_s for each in sources.values())
    total_s = np.full(layout.size, slack_s)
    for node, weight in zip((1.0 + NODES) / 2.0, WEIGHTS / 2.0, strict=True):
        at_s, all_read = scale_s * node / (1.0 - node), np.ones(layout.size)
        for k, each in sources.items():
            came = each_on[k] * _read_s(at_s + slack_s - each.slack_s, each.disorder_s)
            none = np.exp(-came) if job.arrival_scv_o[k] > 0.0 else np.maximum(1.0 - came, 0.0)
            all_read = all_read * (1.0 - none) ** layout.replicas_on[k]
        total_s += weight * scale_s / (1.0 - node) ** 2 * (1.0 - all_read)
    return Disorder(max(each.disorder_s for each in sources.values()), total_s)


def _read_s(at_s: np.ndarray, disorder_s: float) -> np.ndarray:
    """Seconds in which a subtask reads as many records as it reads from after the end by `at_s`: the integral of
    min(1, t / disorder_s) up to there."""
    if disorder_s == 0.0:
        return at_s
    return np.where(at_s < disorder_s, at_s**2 / (2.0 * disorder_s), at_s - disorder_s / 2.0)
