"""Numbers with a unit, as people write them: `20k`, `1.5M`, `1%`, `500ms`, `2min`.

The name of a value says the unit of its number (`latency_ms`, `rate_per_s`, `cpu_percent`), in options, conditions and
files alike: `500ms` is 0.5 for `horizon_s` and 500 for `latency_ms`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any

from twin.errors import BadInput

FACTORS: Mapping[str, float] = {"k": 1e3, "M": 1e6, "G": 1e9, "%": 0.01}
SECONDS: Mapping[str, float] = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
"""Pattern of a number without sign and unit."""
UNIT = r"(?:us|ms|s|min|h|[kMG%])"
_QUANTITY = re.compile(rf"^\s*([-+]?{NUMBER})\s*({UNIT})?\s*$")
_IN = {"_us": "us", "_ms": "ms", "_s": "s", "_min": "min", "_h": "h"}
"""Units of time of values, by the endings of their names."""
OWN_UNITS = {"_mbps": "Mbit/s", "_mb": "megabytes (4000 is 4 GB)"}
"""Units of values whose numbers take none, by the endings of their names."""


def written(value: float, digits: int = 3) -> str:
    """Number with so many significant digits, as people write it: with thousands apart, and without an exponent."""
    rounded = float(f"{value:.{digits}g}")
    if not rounded or not math.isfinite(rounded):
        return f"{rounded:g}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(rounded))))
    text = f"{rounded:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def number(text: str, name: str = "") -> float:
    """Reads the number in `text`, converted to the unit of `name`; unchanged if the text has no unit.

    Raises ValueError if `text` is no number, or if its unit does not fit the name, as 5ms does not fit a rate.
    """
    match = _QUANTITY.match(text)
    if match is None:
        raise ValueError(f"{text!r} is no number")
    value, unit = float(match[1]), match[2]
    if unit is None:
        return value
    if unit in SECONDS:
        own = unit_of_time(name)
        if own is None:
            raise ValueError(f"{text!r} is a duration, which {name or 'this'} is not")
        return value if own == unit else value * SECONDS[unit] / SECONDS[own]
    if unit != "%" and name.endswith((*OWN_UNITS,)):
        raise ValueError(f"{text!r}: the name {name} already says the unit; give the number alone")
    if unit == "%" and name.endswith("_percent"):
        return value
    return value / 100 if unit == "%" else value * FACTORS[unit]


EPOCHS = ((1e17, 1e-9), (1e14, 1e-6), (1e11, 1e-3))
"""Times from which on they are in nano-, micro- and milliseconds (in seconds they would be after the year 5000), and
their factors to seconds."""


DATES = {8: "%Y%m%d", 10: "%Y%m%d%H", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
"""Forms of dates without separators, by their number of digits."""
DATED = range(1990, 2100)
"""Years of which such dates are likely."""


def moment_s(value: Any) -> float:
    """Reads a time as others write it, in seconds: a number, of seconds or of smaller units since 1970, or a date by
    ISO 8601, in UTC if it names no zone.

    Raises ValueError for anything else.
    """
    if isinstance(value, datetime | date):
        moment = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    try:
        found = float(value)
    except (TypeError, ValueError):
        return moment_s(datetime.fromisoformat(str(value).strip()))
    if not math.isfinite(found) or _is_date(found):
        raise ValueError(f"{value} is no time")
    return found * next((unit_s for least, unit_s in EPOCHS if abs(found) >= least), 1.0)


def _is_date(number: float) -> bool:
    """Whether a number is a date without separators, such as 20261130 or 202611301405: as a time since 1970 it would be
    in the seventies, or decades ahead."""
    form = DATES.get(len(f"{number:.0f}")) if number == int(number) else None
    if form is None:
        return False
    try:
        return datetime.strptime(f"{number:.0f}", form).year in DATED
    except ValueError:
        return False


def unit_of_time(name: str) -> str | None:
    """Unit of a duration with that name, as `ms` of `latency_ms`; None if the name is not of a duration."""
    last = name.rpartition(".")[2]
    if re.fullmatch(r"mean|p\d+", last):  # a statistic, whose unit is that of the name before it
        last = name.rpartition(".")[0]
    return next((unit for ending, unit in _IN.items() if last.endswith(ending) and "_per_" not in last), None)


def units_of(name: str) -> str:
    """Units that a value of that name takes, in words; empty if it takes none."""
    if unit_of_time(name) is not None:
        return "us, ms, s, min or h"
    if name.endswith((*OWN_UNITS,)):
        return ""
    return "%" if name.endswith("_percent") else "k, M, G or %"


def own_unit(name: str) -> str:
    """Unit that the name of a value says, of those whose numbers take none; empty if it says none."""
    return next((unit for ending, unit in OWN_UNITS.items() if name.endswith(ending)), "")


def duration_s(text: str, where: str) -> float:
    """Reads a duration in seconds, from `500ms`, `2s` or `1min`.

    Raises BadInput, beginning with `where`, if `text` is no duration, has no unit, or is not above 0.
    """
    match = _QUANTITY.match(text)
    if match is not None and match[2] is None and float(match[1]) > 0.0:
        bare = match[1]
        raise BadInput(f"{where} {text}: a duration needs a unit; write {bare}ms or {bare}s")
    try:
        value_s = number(text, "_s")
    except ValueError:
        value_s = 0.0
    if match is None or match[2] not in SECONDS or not value_s > 0.0:
        raise BadInput(f"{where} {text}: not a duration; write it as in 500ms, 2s or 1min")
    return value_s
