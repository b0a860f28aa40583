"""How many different keys a stretch of time holds, if every event has one of them at random."""

from __future__ import annotations

import math

from twin.errors import BadInput
from twin.event_windows.consolidation import Keys


def expected_keys(keys: float, events_per_pane: float) -> Keys:
    """By span of panes, the expected number of different keys: G (1 - exp(-n / G)) of G keys in n Poisson events.

    Expected, as drawn ones could make a window hold fewer keys than a part of it. Raises BadInput without keys, or for
    a negative number of events.
    """
    if not 0.0 < keys < math.inf:
        raise BadInput(f"keys must be > 0, got {keys}")
    if not 0.0 <= events_per_pane < math.inf:
        raise BadInput(f"events_per_pane must be >= 0, got {events_per_pane}")
    return lambda span: -keys * math.expm1(-events_per_pane * span.length / keys)
