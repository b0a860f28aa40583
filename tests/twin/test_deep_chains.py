"""Jobs as deep as they are wide: what is known along streams needs no stack."""

from __future__ import annotations

import pytest

from scenarios.spaces.generator import random_scenario
from scenarios.spaces.parameter_space import COSTREAM
from tests.scenarios.test_job_maps import chain
from twin.query import Windowed
from twin.scenario import RunSettings
from twin.wiring.meeting import overlapping
from twin.wiring.wiring import Wiring

FAST = RunSettings(fidelity="fast")


def test_a_chain_deeper_than_the_stack_is_wired():
    wiring = Wiring(chain(1500, 3), FAST)
    world = wiring.build()
    assert len(world.tasks) == 1500
    assert all(task.confluence is None for tasks in world.tasks.values() for task in tasks)


@pytest.mark.parametrize("seed", range(8))
def test_segments_overlap_where_streams_meet_and_after(seed):
    wiring = Wiring(random_scenario(COSTREAM, seed, FAST), FAST)
    wiring.build()

    def overlap(name: str) -> bool:
        inputs = wiring.job.inputs(name)
        if sum(map(wiring.producers, inputs)) > 1 or (inputs and wiring.noise.jitter_scv > 0.0):
            return True
        return any(overlap(each.stream.producer) and not by_time(each.stream.producer) for each in inputs)

    def by_time(name: str) -> bool:
        operators = wiring.job.component(name).operators
        return any(isinstance(each, Windowed) and each.window.policy == "time" for each in operators)

    assert overlapping(wiring) == {each.name for each in wiring.job.components if overlap(each.name)}
