"""Jobs on which a model is to improve: any number to learn on, and others on which it is judged.

In a family of the suite, its members judge, and jobs of later seeds teach. For a single scenario, both are variations
with other rates and hosts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from optimizers.counted import as_plans
from optimizers.space import ALL_PLANS, Space
from optimizers.space_plans import SpacePlans
from scenarios.files import registry, scenario_file
from scenarios.spaces.families import ScenarioFamily
from scenarios.suite.families import FAMILIES
from twin.errors import BadInput, suggest
from twin.plan import ExecutionPlan
from twin.randomness import child_seed, random_stream
from twin.scenario import Scenario

LATER = 1_000_000
"""Distance of the seeds of jobs that teach from a family's first seed: far from members of all versions."""
JUDGES = 2**31
"""Number of the child seed whose children are the variations that judge."""


@dataclass(frozen=True, slots=True)
class JobPool:
    """Jobs to learn on and to judge on. teaching, judging: the job of a number, from 0. most: number of judging jobs.
    space: of their plans."""

    name: str
    teaching: Callable[[int], Scenario]
    judging: Callable[[int], Scenario]
    most: int
    space: Space

    def plans(self, job: Scenario, seed: int, count: int) -> list[ExecutionPlan]:
        """Different plans of a job, drawn uniformly; all of them, if there are no more than `count`."""
        space = SpacePlans(job, replace(self.space, free_replicas=False))
        return list(as_plans(job, space.sample(random_stream(seed, "plans"), count)))


def job_pool(name: str, seed: int) -> JobPool:
    """Pool of a family of the suite, or of a scenario by name or file. Raises BadInput for any other name."""
    if name in FAMILIES:
        family = FAMILIES[name]
        return JobPool(
            name,
            teaching=lambda number: family.make(family.seeds[0] + LATER + 1000 * seed + number),
            judging=lambda number: family.make(family.seeds[number]),
            most=len(family.seeds),
            space=family.space,
        )
    try:
        base = scenario_file.load(name)
    except BadInput as error:
        near: Mapping[str, object] = {**FAMILIES, **dict.fromkeys(registry.names())}
        raise BadInput(
            f"--on {name!r} is no family of the suite, nor a scenario ({error}); {suggest(name, near)}"
        ) from None
    teaching, judging = (ScenarioFamily(base, child_seed(seed, child)) for child in (0, JUDGES))
    return JobPool(name, teaching, judging, most=1000, space=ALL_PLANS)
