"""Formats of numbers for people."""

from __future__ import annotations


def seconds(value: float) -> str:
    """Text of a duration [s] >= 0 in the unit that reads best, about three digits."""
    factor, unit = scale(value)
    if unit != "s" or value == 0:
        return f"{value * factor:.3g} {unit}"
    return f"{value:.2f} s" if value < 100 else f"{value:,.0f} s"


def scale(value_s: float) -> tuple[float, str]:
    """Number of units in a second, and the unit, in which a duration >= 0 reads best."""
    if 0 < value_s < 1e-6:
        return 1e9, "ns"
    if value_s < 1e-3:
        return 1e6, "µs"
    return (1e3, "ms") if value_s < 1 else (1.0, "s")
