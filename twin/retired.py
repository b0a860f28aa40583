"""Retired run settings, of versions that could also simulate coarsely: scenarios with them still run, with one
warning."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

RETIRED = ("fidelity", "segments")
LEAVE_OUT = "leave it out: every run is exact"


class Retired(UserWarning):
    """Warning about a setting that no longer means anything."""


def told_retired(names: Iterable[str]) -> bool:
    """Whether any of these run settings is retired; if so, warns of it, once."""
    gone = any(name in RETIRED for name in names)
    if gone:
        words = f"{' and '.join(f'run.{name}' for name in RETIRED)} can be left out: every run is exact"
        warnings.warn(words, Retired, stacklevel=1)  # always from this line, as Python shows a warning once a line
    return gone
