"""Whether a fast run says of itself that it does not resolve what it shows."""

from __future__ import annotations

from collections.abc import Sequence

REMEDY = "fidelity: exact"
"""Where a warning ends so, or says so, an exact run would tell what this one does not."""


def unsure(warnings: Sequence[str]) -> bool:
    """Whether any of a run's warnings sends to an exact one."""
    return any(REMEDY in line for line in warnings)
