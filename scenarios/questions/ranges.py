"""Reads lists and ranges of values that people write.

`500,1k,2k` · `5ms,1s` · `1k..50k:10` ten values, evenly spaced · `1k..50k:10:log` evenly spaced in their logarithm ·
`1..8` whole numbers · anything else is YAML: `poisson,constant` · `{law: poisson, rate_per_s: 9},{law: steps, ...}`.
"""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from scenarios.files.yaml_text import parse_text
from twin.errors import BadInput
from twin.quantities import NUMBER, UNIT, number

MOST = 1000
"""Most values of a range."""
FINEST, COARSEST = 1e-4, 0.5
"""Least and largest precision that may be asked for, as shares."""
DIGITS = 4
"""Number of significant digits of values between the ends of a range."""

_NUMBER = rf"[-+]?{NUMBER}{UNIT}?"
_RANGE = re.compile(rf"^({_NUMBER})\.\.({_NUMBER})(?::(\d+))?(?::(log|linear))?$")
_SHORT = re.compile(rf"^{_NUMBER}$")


def values(text: str, where: str) -> list[Any]:
    """Values that a text lists, in order; a value that is given twice counts once.

    Raises BadInput, beginning with `where`, if it lists nothing or a range makes no sense.
    """
    listed = parse_text(f"[{text}]", where)
    values_listed = [value for item in listed for value in _item(item, where)] if isinstance(listed, list) else []
    if not values_listed:
        raise BadInput(f"{where}: no values; write {where.split()[-1]}=V1,V2 or a range such as 1k..50k:10")
    return [value for index, value in enumerate(values_listed) if value not in values_listed[:index]]


def bounds(text: str, where: str) -> tuple[float, float]:
    """Ends of `LOW..HIGH`. Raises BadInput if `text` is no such range, or has no width, or the higher one is first."""
    match = _RANGE.match(text.strip())
    if match is None or match[3] or match[4]:
        raise BadInput(f"{where}: {text!r} is no range; write LOW..HIGH, such as 100..5k")
    low, high = _number(match[1], where), _number(match[2], where)
    if low == high:
        raise BadInput(f"{where}: {text} is a single value; give two different ends")
    if low > high:
        raise BadInput(f"{where}: {text} begins with the higher end; write {match[2]}..{match[1]}")
    return low, high


def as_whole(value: float) -> float | int:
    """Whole numbers as int, as some keys of a scenario take nothing else; other numbers unchanged."""
    return int(value) if float(value).is_integer() and abs(value) < 2**53 else value


def _item(item: Any, where: str) -> list[Any]:
    if not isinstance(item, str):
        return [as_whole(item) if isinstance(item, float) else item]
    match = _RANGE.match(item)
    if match is None:
        return [as_whole(_number(item, where))] if _SHORT.match(item) else [item]
    low, high = _number(match[1], where), _number(match[2], where)
    return _range(item, low, high, match[3], match[4] == "log", where)


def _number(text: str, where: str) -> float:
    """Number in the unit of the last name in `where`, such as `--vary cluster.hosts.edge-1.latency_ms`."""
    try:
        return number(text, where.split()[-1])
    except ValueError as error:
        raise BadInput(f"{where}: {error}") from None


def _range(item: str, low: float, high: float, count: str | None, log: bool, where: str) -> list[float | int]:
    whole = low.is_integer() and high.is_integer()
    if count is None and not whole:
        raise BadInput(f"{where}: {item} does not say how many values; write {item}:10")
    many = int(count) if count else int(abs(high - low)) + 1
    if low == high or not 2 <= many <= MOST:
        raise BadInput(f"{where}: {item} is {many if low != high else 1} values; a range has 2 to {MOST}")
    if log and not (low > 0.0 and high > 0.0):
        raise BadInput(f"{where}: {item} reaches 0, which has no logarithm; begin above it, or leave :log out")
    spread = np.geomspace(low, high, many) if log else np.linspace(low, high, many)
    whole = whole and abs(high - low) >= many - 1
    inner = [float(round(value) if whole else significant(value, DIGITS)) for value in spread[1:-1]]
    return [as_whole(value) for value in dict.fromkeys((low, *inner, high))]


def significant(value: float, digits: int) -> float:
    """Value rounded to a number of significant digits."""
    return float(round(value, digits - 1 - math.floor(math.log10(abs(value))))) if value else 0.0


def share(text: str) -> float:
    """Precision as a share, from `2%` or `0.02`. Raises BadInput for anything else, and outside 0.01 % to 50 %."""
    try:
        value = number(text)
    except ValueError:
        value = math.nan
    if not FINEST <= value <= COARSEST:
        raise BadInput(f"--precision {text}: give an error from 0.01% to 50%, such as 2% or 0.02")
    return value
