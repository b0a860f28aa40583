"""Number of records that arrive at a job until a time, by the laws of its sources."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import numpy as np

from twin.arrivals.law import Phase
from twin.events import RateChange
from twin.randomness import random_stream
from twin.scenario import Scenario
from twin.workload import ArrivalLaw, Replay

PHASES_READ = 20_000
"""Most phases of an arrival law that are read; after these, its mean rate holds."""


class Offered:
    """Records that arrive at all sources, with changes of rates by events. Phases that come at random are the run's
    own. phases_per_s: phases a second, by source. unsure: whether rates are recorded times, of which only the mean is
    used."""

    def __init__(self, scenario: Scenario) -> None:
        self.phases_per_s: dict[str, float] = {}
        self.unsure = False
        self._curves = [self._curve(scenario, name, law) for name, law in scenario.workload.arrivals.items()]

    def until(self, at_s: float) -> float:
        """Number of records that arrive until a time."""
        return sum(float(np.interp(at_s, *curve)) for curve in self._curves)

    def _curve(self, scenario: Scenario, source: str, law: ArrivalLaw) -> tuple[np.ndarray, np.ndarray]:
        """Times until the horizon between which the rate is constant, and the number of records until then."""
        end_s, phases, rest_per_s = scenario.run.horizon_s, list[Phase](), law.mean_rate_per_s
        if isinstance(law, Replay) and law.recording.rates_per_s is None:  # times have no phases
            self.unsure = True
        else:
            own = law.phases(random_stream(scenario.run.seed, f"arrivals:{source}"))
            phases = list(islice(own, PHASES_READ))
            rest_per_s = rest_per_s if len(phases) == PHASES_READ else 0.0
        lengths_s, rates_per_s = np.array([*phases, (np.inf, rest_per_s)]).T
        ends_s = np.minimum(np.cumsum(lengths_s), end_s)
        over = int(np.searchsorted(ends_s, end_s))
        self.phases_per_s[source] = over / float(ends_s[over - 1]) if over else 0.0
        changes = [each for each in scenario.events if isinstance(each, RateChange) and each.source == source]
        edges_s = np.unique([0.0, *ends_s, *(min(each.at_s, end_s) for each in changes)])
        middles_s = (edges_s[1:] + edges_s[:-1]) / 2.0
        rates = rates_per_s[np.searchsorted(ends_s, middles_s)] * _factors(changes, law, middles_s)
        return edges_s, np.append(0.0, np.cumsum(np.diff(edges_s) * rates))


def _factors(changes: Sequence[RateChange], law: ArrivalLaw, at_s: np.ndarray) -> np.ndarray:
    """Factors on a law's rates at some times: of the last change before each."""
    found = np.ones(len(at_s))
    for each in sorted(changes, key=lambda event: event.at_s):
        found[at_s > each.at_s] = each.factor or (each.rate_per_s or 1.0) / law.mean_rate_per_s
    return found
