"""ALBIC, Figs. 10 and 11: collocation and load distance by round, against COLA, by the share that can be collocated and
by size of the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

import numpy as np

from optimizers.balancing.albic import Albic
from optimizers.balancing.cola import Cola
from optimizers.balancing.joint import Joint
from optimizers.balancing.problem import Solver
from papers.albic.clusters import BUDGET, PLANNED, SIZES, Topology, drifts, job
from papers.albic.clusters import rounds as rounds_by
from papers.drawing import lines
from papers.interface import CaseTable, Experiment, Row, Rows, grid, shape, span
from papers.workspace import Workspace

WAYS: Mapping[str, Solver] = {
    "ALBIC, one pair a round": Albic(),
    "ALBIC, pairs for 60 % of the budget": Albic(share=0.6),
    "ALBIC, pairs for 90 % of the budget": Albic(share=0.9),
    "joint (ours)": Joint(),
    "COLA": Cola(),
}
ALBICS = tuple(way for way in WAYS if way.startswith("ALBIC"))
TOPOLOGIES: tuple[Topology, ...] = get_args(Topology)
ROUNDS = 40
TOLD = (1, 5, 10, 20, 40)
"""Rounds after which the collocation factor is reported."""


def measured(workspace: Workspace, topology: Topology, size: str, percent: int, way: str, rounds: int = ROUNDS) -> Row:
    """Summary of all rounds of one way. percent: as in `jobs.job`."""
    case = {"topology": topology, "size": size, "percent": percent, "way": way, "rounds": rounds}
    found = workspace.measured("albic-collocation", course, **case)
    return {
        "nodes": SIZES[size][0],
        **{f"after_{number}": found["collocation"][number - 1] for number in TOLD if number <= rounds},
        "mean": float(np.mean(found["distance"])),
        "most": max(found["distance"]),
        "last": float(np.mean(found["distance"][-10:])),
        "migrations": float(np.mean(found["migrations"])),
    }


def course(topology: Topology, size: str, percent: float, way: str, rounds: int, seed: int) -> dict[str, list[float]]:
    """Collocation factor, load distance and migrations by round."""
    start = job(size, topology, percent, seed)
    steps = [step for _, step in rounds_by(start, WAYS[way].solve, drifts(rounds, seed))]
    return {
        "collocation": [float(step.collocation or 0.0) for step in steps],
        "distance": [step.distance for step in steps],
        "migrations": [float(len(step.moves)) for step in steps],
    }


def shapes(rows: Rows) -> Rows:
    """Compares ALBIC with COLA, job by job: as published, and with several pairs a round."""
    by = {tuple(row[key] for key in ("topology", "nodes", "percent", "way")): row for row in rows}
    jobs = list(dict.fromkeys(key[:-1] for key in by))
    colas = [by[*job, "COLA"] for job in jobs]
    found = []
    for way in ALBICS:
        ours = [by[*job, way] for job in jobs]
        evener = sum(row["mean"] < cola["mean"] for row, cola in zip(ours, colas, strict=True))
        more = [row["after_40"] - cola["after_40"] for row, cola in zip(ours, colas, strict=True)]
        found += [
            shape(f"{way}: load distance", "smaller than COLA's", f"in {evener} of {len(jobs)} jobs",
                  evener == len(jobs)),
            shape(f"{way}: collocation", "above COLA's by up to ten percent", f"by {span(more, '+.1f')}",
                  min(more) >= 0.0 < max(more),
                  f"COLA moves {span([row['migrations'] for row in colas], '.0f')} groups a round for {BUDGET}, and "
                  "collocates some of the even traffic"),
        ]  # fmt: skip
    return found


AFTER = " | ".join(f"after_{number}: collocation after round {number} (%)" for number in TOLD)
COLUMNS = f"""
    topology: operators | way | {AFTER} |
    mean: load distance, mean | most: load distance, highest | last: load distance, last 10 rounds |
    migrations: migrations a round
"""
NOTES = """
- Collocation factor: traffic that stays on a node, of all traffic, the even traffic included; a few percent of that
  are on one node by chance.
- 20 migrations a round; COLA plans from scratch and cannot be held to that. It is told the present nodes, so that it
  moves as little as possible.
- ALBIC as published brings one pair a round together, which takes hundreds of rounds here.
"""

FIG10 = Experiment(
    name="albic.fig10",
    source="ALBIC, Fig. 10, Section 5.3",
    summary="collocation and load distance of ALBIC, COLA and the joint search, by what can be collocated",
    tables={
        "collocation": CaseTable(
            title="40 nodes, 800 key groups, 20 operators: collocation and load distance over 40 rounds",
            columns="percent: one-to-one (%) |" + COLUMNS,
            cases=grid(topology=TOPOLOGIES, size=("fig3",), percent=(0, 25, 50, 75, 100), way=WAYS),
            measure=measured,
            shapes=shapes,
        )
    },
    figures={
        f"{quantity}-{topology}": lines(
            "key groups with one-to-one communication (%)",
            label,
            x="percent",
            y=key,
            series="way",
            only={"topology": [topology]},
        )
        for topology in TOPOLOGIES
        for quantity, key, label in (
            ("collocation", "after_40", "collocation, round 40 (%)"),
            ("distance", "last", "load distance, last 10 rounds"),
        )
    },
    notes=NOTES,
    about=PLANNED,
)
FIG11 = Experiment(
    name="albic.fig11",
    source="ALBIC, Fig. 11, Section 5.3",
    summary="collocation and load distance of ALBIC, COLA and the joint search, by size of the cluster",
    tables={
        "sizes": CaseTable(
            title="Half of the key groups with one-to-one communication: collocation and load distance over 40 rounds",
            columns="nodes |" + COLUMNS,
            cases=grid(topology=TOPOLOGIES, size=SIZES, percent=(50,), way=WAYS),
            measure=measured,
            shapes=shapes,
        )
    },
    figures={
        "collocation-pairs": lines(
            "nodes", "collocation, round 40 (%)", x="nodes", y="after_40", series="way", only={"topology": ["pairs"]}
        )
    },
    notes=NOTES + "- Twenty migrations a round are ever fewer of the key groups as clusters grow.",
    about=PLANNED,
)
