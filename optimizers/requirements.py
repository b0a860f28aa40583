"""What a plan must fulfil beside keeping up, as values: head room, latencies, and the prices of hosts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from twin.errors import BadInput, suggest
from twin.metrics import REGRESSION_METRICS, TABLE

LATENCIES = tuple(name for name in REGRESSION_METRICS if TABLE[name].better == "min")


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """Nothing unless something is said.

    head_room: share of the offered rates that a plan must bear beyond them, >= 0: no resource is used to more than
    1 / (1 + head_room), as far as loads grow with rates. at_most: by latency, seconds that its mean may reach. prices:
    of hosts, for optimizers that buy them; 1 of those not named.

    Raises BadInput for an unknown latency, a limit or a price that is not above 0, or a negative head room.
    """

    head_room: float | None = None
    at_most: Mapping[str, float] = field(default_factory=dict)
    prices: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.head_room is not None and not 0.0 <= self.head_room < 1e6:
            raise BadInput(f"head room must be >= 0, such as 0.2 for 20 %, got {self.head_room}")
        for name, most_s in self.at_most.items():
            if name not in LATENCIES:
                raise BadInput(f"unknown latency {name!r} is limited; {suggest(name, LATENCIES)}")
            if not 0.0 < most_s < math.inf:
                raise BadInput(f"{name} at most {most_s} s: give a number of seconds above 0")
        for name, price in self.prices.items():
            if not 0.0 < price < math.inf:
                raise BadInput(f"price of host {name!r} must be > 0, got {price}")

    @property
    def factor(self) -> float:
        """On the offered rates, at which a plan must not be backpressured."""
        return 1.0 + (self.head_room or 0.0)

    @property
    def words(self) -> str:
        """In a few words; empty if nothing is required."""
        room = f"bears {self.factor:g} times the offered rates" if self.head_room else ""
        limits = [f"keeps {name} to at most {most_s:g} s" for name, most_s in self.at_most.items()]
        return ", ".join(filter(None, [room, *limits]))


NOTHING_MORE = Requirements()
