"""ALBIC, Figs. 12 to 14: collocation, load distance and load index of Real Jobs 2 to 4, simulated."""

from __future__ import annotations

from scenarios.experiments.albic.real_jobs import experiment

FIG12 = experiment(
    "albic.fig12",
    "airline-delays",
    "ALBIC, Fig. 12, Section 5.4",
    "collocation, load distance and load index of Real Job 2, simulated",
    "The paper's ALBIC takes the load index from 100 to 50 % with 10 migrations a round; its COLA to 75 %, as it "
    "migrates close to 200 key groups each time.",
)
FIG13 = experiment(
    "albic.fig13",
    "airline-routes",
    "ALBIC, Fig. 13, Section 5.4",
    "the same of Real Job 3, half of whose traffic can stay on a host",
    "The paper's COLA runs on half of the input, as its migrations are too much for the system; ours on all of it.",
)
FIG14 = experiment(
    "albic.fig14",
    "airline-weather",
    "ALBIC, Fig. 14, Section 5.4",
    "the same of Real Job 4, a join of flights and weather",
    "The paper could not run COLA in each round, and has a collocation factor of around 61 % from three runs of "
    "it; ours runs in each round.",
)
