"""Whether a job goes on as it began, and for how long what happened matters: what means over time can be worth."""

from __future__ import annotations

from collections.abc import Sequence

from twin.control import Policy
from twin.deployment import Deployment
from twin.events import AnyEvent
from twin.job import Job, compile
from twin.query import EventTimed, Windowed
from twin.scenario import Scenario
from twin.workload import Bursty, Constant, Poisson, Spikes


def change(deployment: Deployment, events: Sequence[AnyEvent], policy: Policy | None) -> str:
    """What makes one stretch of a run another law than the next, in words; empty if all are alike but for chance.

    Bursts and spikes at random times are chance, though of a longer breath (`memory_s`).
    """
    if events:
        return f"events ({events[0].kind})"
    if policy is not None:
        return f"the policy {policy.name}"
    if _checkpointed(deployment):
        return "checkpoints"
    for source, law in deployment.workload.arrivals.items():
        random = isinstance(law, Constant | Poisson | Bursty) or (isinstance(law, Spikes) and law.random)
        if not random:
            return f"the arrivals of {source} ({law.law})"
    return ""


def _checkpointed(deployment: Deployment) -> bool:
    """Whether every so often it does something else besides."""
    return isinstance(deployment, Scenario) and deployment.checkpoints is not None


def slides_s(deployment: Deployment) -> list[float]:
    """The slides of the windows over time, in seconds."""
    operators = deployment.query.operators
    windows = [each.window for each in operators if isinstance(each, Windowed)]
    formed = [window for each in operators if isinstance(each, EventTimed) for window in each.forms]
    return [
        *(each.slide for each in windows if each.policy == "time"),
        *(window.slide_s for window in formed),
    ]


def memory_s(what: Deployment | Job) -> float:
    """Seconds for which what comes out depends on what came in, queues apart.

    The longest of windows, of a round of bursts or spikes, and of the time between drifts of keys.
    """
    job, lengths_s = compile(what), [0.0]
    for component in job.apart.components:
        operator = component.operator
        if isinstance(operator, Windowed):
            rate = job.rates[operator.name].in_per_s / component.replicas
            window = operator.window
            lengths_s.append(window.size if window.policy == "time" else window.size / max(rate, 1e-300))
        elif isinstance(operator, EventTimed):
            lengths_s += [window.length_s for window in operator.forms]
    workload = job.deployment.workload
    for law in workload.arrivals.values():
        if isinstance(law, Bursty):
            lengths_s.append(sum(state.mean_s for state in law.states))
        elif isinstance(law, Spikes):
            lengths_s.append(law.every_s)
    lengths_s += [skew.drift_every_s or 0.0 for skew in workload.keys.values()]
    return max(lengths_s)


def steady(deployment: Deployment, events: Sequence[AnyEvent], policy: bool) -> bool:
    """Whether a run could be longer or shorter and tell the same: constant rates, nothing that happens or drifts."""
    laws = deployment.workload.arrivals.values()
    drifts = any(skew.drift_every_s is not None for skew in deployment.workload.keys.values())
    changes = bool(events) or policy or drifts or _checkpointed(deployment)
    return not changes and all(isinstance(law, Constant | Poisson) for law in laws)
