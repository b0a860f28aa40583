"""Jobs as deep as they are wide: what is known along streams needs no stack."""

from __future__ import annotations

from tests.streamtwin.test_job_maps import chain
from twin.scenario import RunSettings
from twin.wiring.build import build
from twin.wiring.wiring import Wiring


def test_a_chain_deeper_than_the_stack_is_wired():
    world = build(Wiring(chain(1500, 3), RunSettings()))
    assert len(world.tasks) == 1500
