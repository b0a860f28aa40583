"""Run settings of versions that could also simulate coarsely: what still has them runs, and is told once."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

RETIRED = ("fidelity", "segments")
LEAVE_OUT = "leave it out: every run is exact"


class Retired(UserWarning):
    """A setting that no longer means anything."""


def told_retired(names: Iterable[str]) -> bool:
    """Whether any of these run settings is retired; if so, a warning says it, once."""
    gone = any(name in RETIRED for name in names)
    if gone:
        words = f"{' and '.join(f'run.{name}' for name in RETIRED)} can be left out: every run is exact"
        warnings.warn(words, Retired, stacklevel=1)  # always from here, as Python tells a place once
    return gone
