"""`twin validate` and `twin benchmark`: optimizers beside each other in the simulator."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from streamtwin.answers.presentation import Presentation
from streamtwin.tables.tables import of_standings


def told(document: Mapping[str, Any]) -> Presentation:
    """Standings, the best first."""
    standings = [
        {name: math.nan if value is None else value for name, value in row.items()} for row in document["standings"]
    ]
    return Presentation(
        heading="Optimizers in the simulator", sentences=[_best(standings)], tables=[of_standings(standings)]
    )


def _best(standings: Sequence[Mapping[str, Any]]) -> str:
    first = standings[0]
    if math.isnan(first["mean"]):
        return "No optimizer found a plan that keeps up as well as the best known one."
    mean = f"a mean regret of {first['mean']:.1%} against the best plans known"
    return f"{first['optimizer']} by {first['cost_model']} is the best of {len(standings)}: {mean}."
