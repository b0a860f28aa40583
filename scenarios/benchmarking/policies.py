"""Which policy scales a job whose load changes: mean end-to-end latency in the simulator, on the same random numbers.

What the replicas cost is not judged; `twin compare-policies` shows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from optimizers.policies.registry import POLICIES
from scenarios.benchmarking.answers import Answer, rows
from scenarios.benchmarking.request import Request
from scenarios.planning.outcomes import Outcome
from scenarios.planning.simulated_cost import replicate
from scenarios.planning.validation import ValidationRow
from scenarios.suite.changing import changing
from scenarios.suite.members import MEMBERS
from twin.control import policy_spec
from twin.scenario import Scenario
from twin.simulation import simulate

OBJECTIVE = "e2e_latency_s"
NONE = "none"


def judged(family: str, number: int, request: Request) -> Sequence[ValidationRow]:
    """Of the member of that number, from 0, under no policy and each that can control it."""
    job = changing(MEMBERS[family].seeds[number]).with_run(seed=request.seed)
    return rows(f"{family}-{number + 1}", OBJECTIVE, _answers(job, request.replications))


def _answers(job: Scenario, replications: int) -> Iterator[Answer]:
    for name in (NONE, *POLICIES):
        try:
            spec = None if name == NONE else policy_spec(name)
            if spec is not None:
                spec.start(job)
        except ValueError as refusal:
            yield Answer(name, "-", refusal=str(refusal))
            continue
        runs = replicate(simulate, job.with_policy(spec), replications)
        found = Outcome.of(runs, OBJECTIVE)
        kind = found.rank[0] if np.isfinite(found.mean) else 2
        yield Answer(name, "-", found.mean, kind)
