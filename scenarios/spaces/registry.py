"""All parameter spaces by name. A new one is a `ParameterSpace` and a line here."""

from __future__ import annotations

from collections.abc import Mapping

from scenarios.spaces.parameter_space import COSTREAM, ParameterSpace, chains
from scenarios.spaces.unseen_hardware import UNSEEN_HARDWARE

SPACES: Mapping[str, ParameterSpace] = {
    "costream": COSTREAM,
    "costream-chain2": chains(2),
    "costream-chain3": chains(3),
    "costream-chain4": chains(4),
    "costream-chains": chains(2, 3, 4),
    **UNSEEN_HARDWARE,
}

WIDE = "wide"
WIDE_SUMMARY = "random engines, queries with maps and measured joins, replicas and sockets; for models used as they are"
"""A space that is no `ParameterSpace` but draws engines, too: `scenarios.spaces.wide`."""
