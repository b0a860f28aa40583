"""All spaces of random scenarios by name: parameter spaces, and spaces that draw engines, too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import TYPE_CHECKING

from scenarios.spaces.generator import COSTREAM, UNSEEN_HARDWARE, ParameterSpace, chains

if TYPE_CHECKING:
    from twin.scenario import Scenario

SPACES: Mapping[str, ParameterSpace] = {
    "costream": COSTREAM,
    "costream-chain2": chains(2),
    "costream-chain3": chains(3),
    "costream-chain4": chains(4),
    "costream-chains": chains(2, 3, 4),
    **UNSEEN_HARDWARE,
}


@dataclass(frozen=True, slots=True)
class DrawnSpace:
    """Space that draws engines, too. draws: `module:function`, from a seed and the length of the run in seconds (or
    None) to a scenario; it is imported only when it is used, as it imports optimizers."""

    summary: str
    draws: str

    def scenario(self, seed: int, horizon_s: float | None) -> Scenario:
        """Draws a scenario. horizon_s: length of the run in seconds; None: as the space draws it."""
        drawn: Scenario = resolve_name(self.draws)(seed, horizon_s)
        return drawn


DRAWN: Mapping[str, DrawnSpace] = {
    "wide": DrawnSpace(
        "random engines, queries with maps and measured joins, subtasks and sockets; for models used as they are",
        "scenarios.spaces.wide:wide_scenario",
    ),
    "demanding": DrawnSpace(
        "bursts, skewed and drifting keys, calls, links in a row, crowded hosts near their limits; likewise",
        "scenarios.spaces.demanding:demanding_scenario",
    ),
    "flink": DrawnSpace(
        "jobs of Flink over all that composes: kinds, windows, event time, state, checkpoints, calls; 1 to 12 sources",
        "scenarios.spaces.flink:flink_scenario",
    ),
}
"""Spaces that are no `ParameterSpace`. A new one is a file and an entry here."""
