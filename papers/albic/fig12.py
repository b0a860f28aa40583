"""ALBIC, Fig. 12: Real Job 2, two operators that go by the same key, in the simulator."""

from __future__ import annotations

from functools import partial

from papers.albic.real_jobs import courses
from papers.interface import Experiment

NOTE = (
    "The paper's ALBIC takes the load index from 100 to 50 % with 10 migrations a round; its COLA to 75 %, as it "
    "migrates close to 200 key groups each time."
)

FIG12 = Experiment(
    name="albic.fig12",
    source="ALBIC, Fig. 12, Section 5.4",
    summary="collocation, load distance and load index of Real Job 2, simulated",
    run=partial(courses, "albic.fig12", "airline-delays", NOTE),
)
