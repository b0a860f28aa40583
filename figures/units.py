"""Numbers as people read them."""

from __future__ import annotations


def seconds(value: float) -> str:
    """A duration >= 0 in the unit that reads best, about three digits."""
    if 0 < value < 1e-6:
        return f"{value * 1e9:.3g} ns"
    if value < 1e-3:
        return f"{value * 1e6:.3g} µs"
    if value < 1:
        return f"{value * 1e3:.3g} ms"
    return f"{value:.2f} s" if value < 100 else f"{value:,.0f} s"
