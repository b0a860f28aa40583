"""Writes values beside their errors, with no more digits than the error leaves."""

from __future__ import annotations

import math

from figures import units
from streamtwin.tables import tables

FEWEST_DIGITS = 2


def place(value: float, error: float) -> int:
    """Power of ten to which a value is rounded: two digits for an error of 1 to 10 %, three for one of 0.1 to 1 %.

    One digit more where the error would not be seen otherwise. Both are > 0.
    """
    digits = max(FEWEST_DIGITS, 1 + math.floor(-math.log10(error / value)))
    found = math.floor(math.log10(value)) - digits + 1
    return found if error > 0.5 * 10.0**found else found - 1


def digits(value: float, error: float) -> int:
    """Number of significant digits of a value > 0 that an error > 0 leaves."""
    return math.floor(math.log10(value)) - place(value, error) + 1


def number(value: float, error: float | None) -> str:
    """Value >= 0 with its error, as in "110 ± 10"; empty if there is no error to write."""
    if not value or not error:
        return ""
    at = place(value, error)
    return f"{_to(value, at)} ± {_to(error, at)}"


def seconds(value_s: float, error_s: float | None) -> str:
    """Duration with its error in the unit that reads best, as in "1.04 ± 0.03 s"; empty if there is no error."""
    factor, unit = units.scale(value_s)
    text = number(value_s * factor, None if error_s is None else error_s * factor)
    return text and f"{text} {unit}"


def metric(name: str, mean: float | None, half_width: float | None, difference: bool = False) -> str:
    """Mean of a metric of that name with its interval, in the unit that reads best.

    difference: whether it is a difference of means, which may be negative; otherwise an interval begins at 0 or above.
    """
    if mean is None or not math.isfinite(mean):
        return "no results"
    if mean < 0.0:
        return f"-{metric(name, -mean, half_width, difference)}"
    duration = name.partition(".")[0].endswith("latency_s")
    alone = tables.seconds if duration else tables.number
    if half_width and half_width > mean and not difference:
        return f"{alone(mean)} (0 to {alone(mean + half_width)})"
    text = (seconds if duration else number)(mean, half_width) if mean > 0.0 else ""
    return text or alone(abs(mean))


def significant(value: float, digits: int) -> str:
    """Value > 0 with a number of significant digits, zeros included."""
    return _to(value, math.floor(math.log10(value)) - digits + 1)


def _to(value: float, at: int) -> str:
    """Value rounded to a power of ten, as text."""
    return f"{round(value, -at):,.{max(0, -at)}f}"
