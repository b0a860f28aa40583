"""Sizes of experiments: the paper's, or smaller ones that take hours or minutes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Everything that decides how long an experiment takes.

    runs, replicates: of the main corpus; `replicates` of them are simulated twice, for the replicate limit. members:
    networks in an ensemble; restricted_members: the same where a model is trained for one evaluation alone. epochs:
    passes over the training rows; None: as many as the model's settings say. n: fresh runs of an evaluation corpus, or
    random jobs of a size. queries: per query type, where plans are chosen. candidates: plans a query. fine_tuning_runs:
    of the few-shot corpus. horizon_s: simulated seconds a run. judged: simulated runs of a plan on sockets.
    random_plans: on sockets, an application.
    """

    runs: int
    replicates: int
    members: int
    restricted_members: int
    epochs: int | None
    n: int
    queries: int
    candidates: int
    fine_tuning_runs: int
    judged: int
    random_plans: int
    horizon_s: float = 240.0


SMALL = Sizes(
    runs=1200,
    replicates=100,
    members=1,
    restricted_members=1,
    epochs=50,
    n=60,
    queries=6,
    candidates=200,
    fine_tuning_runs=150,
    judged=1,
    random_plans=10,
)
"""Sizes that take minutes on two cores. Models see a thirtieth of the paper's runs: it shows that all works."""

MEDIUM = Sizes(
    runs=10_000,
    replicates=500,
    members=1,
    restricted_members=1,
    epochs=None,
    n=200,
    queries=20,
    candidates=1000,
    fine_tuning_runs=700,
    judged=1,
    random_plans=100,
)
"""Sizes that take hours on two cores: a quarter of the paper's runs, two fifths of its queries, one network for three.
"""

PAPER = Sizes(
    runs=43_281,
    replicates=1000,
    members=3,
    restricted_members=1,
    epochs=None,
    n=500,
    queries=50,
    candidates=10_000,
    fine_tuning_runs=3000,
    judged=3,
    random_plans=1000,
)
"""Sizes of the paper's corpus. n is five times the paper's, because of a hundred runs only a handful fail."""

SCALES: Mapping[str, Sizes] = {"small": SMALL, "medium": MEDIUM, "paper": PAPER}
