"""ALBIC, Fig. 13: Real Job 3, half of whose traffic can stay on a host, in the simulator."""

from __future__ import annotations

from functools import partial

from papers.albic.real_jobs import courses
from papers.interface import Experiment

NOTE = "The paper's COLA runs on half of the input, as its migrations are too much for the system; ours on all of it."

FIG13 = Experiment(
    name="albic.fig13",
    source="ALBIC, Fig. 13, Section 5.4",
    summary="the same of Real Job 3, half of whose traffic can stay on a host",
    run=partial(courses, "albic.fig13", "airline-routes", NOTE),
)
