"""Round after round of one way to collocate and balance, and what is told of it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from optimizers.balancing.adaptation import rounds
from optimizers.balancing.albic import Albic
from optimizers.balancing.cola import Cola
from optimizers.balancing.interface import Solver
from optimizers.balancing.joint import Joint
from papers.albic.jobs import Topology, drifts, job
from papers.workspace import Workspace

WAYS: Mapping[str, Solver] = {
    "ALBIC, one pair a round": Albic(),
    "ALBIC, pairs for 60 % of the budget": Albic(share=0.6),
    "ALBIC, pairs for 90 % of the budget": Albic(share=0.9),
    "joint (ours)": Joint(),
    "COLA": Cola(),
}
ROUNDS = 40
TOLD = (1, 5, 10, 20, 40)
"""Rounds after which the collocation factor is told."""

COLUMNS = {
    "topology": "operators",
    "way": "way",
    **{f"after_{each}": f"collocation after round {each} (%)" for each in TOLD},
    "mean": "load distance, mean",
    "most": "load distance, highest",
    "last": "load distance, last 10 rounds",
    "migrations": "migrations a round",
}
NOTES = (
    (
        "Collocation factor: traffic that stays on a node, of all traffic, the even traffic included; a few percent of "
        "that are on one node by chance."
    ),
    (
        "20 migrations a round; COLA plans from scratch and cannot be held to that. It is told the present nodes, so "
        "that it moves as little as possible."
    ),
    (
        "The paper has ALBIC above COLA in collocation by up to ten percent. That does not reproduce: COLA, which may "
        "migrate almost everything, collocates about as much or more, and that from its first round on. What ALBIC is "
        "better in is load distance and migrations."
    ),
    "ALBIC as published brings one pair a round together, which takes hundreds of rounds here.",
)


def course(workspace: Workspace, size: str, topology: Topology, percent: float, way: str) -> dict[str, list[float]]:
    """By round: collocation factor, load distance, migrations."""
    key = {"size": size, "topology": topology, "percent": percent, "way": way, "rounds": ROUNDS}
    compute = partial(_course, size, topology, percent, way, workspace.seed)
    return dict(workspace.cached("albic-collocation", key, compute))


def _course(size: str, topology: Topology, percent: float, way: str, seed: int) -> dict[str, list[float]]:
    start = job(size, topology, percent, seed)
    found = [each for _, each in rounds(start, WAYS[way].solve, drifts(ROUNDS, seed))]
    return {
        "collocation": [float(each.collocation or 0.0) for each in found],
        "distance": [each.distance for each in found],
        "migrations": [float(len(each.moves)) for each in found],
    }


def row(topology: Topology, way: str, found: Mapping[str, list[float]]) -> dict[str, Any]:
    """The columns above."""
    return {
        "topology": topology,
        "way": way,
        **{f"after_{each}": found["collocation"][each - 1] for each in TOLD},
        "mean": float(np.mean(found["distance"])),
        "most": max(found["distance"]),
        "last": float(np.mean(found["distance"][-10:])),
        "migrations": float(np.mean(found["migrations"])),
    }
