"""ALBIC, Fig. 14: Real Job 4, a join of flights and weather, in the simulator."""

from __future__ import annotations

from functools import partial

from papers.albic.real_jobs import courses
from papers.interface import Experiment

NOTE = (
    "The paper could not run COLA in each round, and has a collocation factor of around 61 % from three runs of it; "
    "ours runs in each round."
)

FIG14 = Experiment(
    name="albic.fig14",
    source="ALBIC, Fig. 14, Section 5.4",
    summary="the same of Real Job 4, a join of flights and weather",
    run=partial(courses, "albic.fig14", "airline-weather", NOTE),
)
