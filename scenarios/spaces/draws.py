"""Values that are drawn: one of several, or a number between two ends; read from what people write in files."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from twin.errors import suggest
from twin.quantities import number

FORMS = "write a list of values, or {from: LOW, to: HIGH}, with log: true where magnitudes are to be equally likely"
ENDS, LOG = ("from", "to"), "log"


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of these values, equally likely."""

    values: tuple[Any, ...]

    def draw(self, rng: np.random.Generator) -> Any:
        """Draws a value."""
        return self.values[int(rng.integers(len(self.values)))]

    @property
    def extremes(self) -> tuple[Any, ...]:
        """All values, for checks."""
        return self.values

    def times(self, factor: float) -> OneOf:
        """The same values, each times a factor."""
        return OneOf(tuple(value * factor for value in self.values))

    def written(self) -> Any:
        """As people write it."""
        return list(self.values)


@dataclass(frozen=True, slots=True)
class Between:
    """A number between two ends, uniform, or log-uniform if `log`. whole: whole numbers, both ends included."""

    low: float
    high: float
    log: bool = False
    whole: bool = False

    def draw(self, rng: np.random.Generator) -> Any:
        """Draws a number."""
        if self.whole and not self.log:
            return int(rng.integers(int(self.low), int(self.high) + 1))
        low, high = (self.low - 0.5, self.high + 0.5) if self.whole else (self.low, self.high)
        low, high = (math.log(max(low, 0.5) if self.whole else low), math.log(high)) if self.log else (low, high)
        value = float(rng.uniform(low, high))
        value = math.exp(value) if self.log else value
        return (
            int(np.clip(round(value), self.low, self.high))
            if self.whole
            else float(np.clip(value, self.low, self.high))
        )

    @property
    def extremes(self) -> tuple[Any, ...]:
        """Both ends, for checks."""
        return (int(self.low), int(self.high)) if self.whole else (self.low, self.high)

    def times(self, factor: float) -> Between:
        """The same range, times a factor."""
        return Between(self.low * factor, self.high * factor, self.log, self.whole)

    def written(self) -> Any:
        """As people write it."""
        low, high = self.extremes
        return {"from": low, "to": high, **({"log": True} if self.log else {})}


Draw = OneOf | Between


def read_draw(value: Any, name: str, *, whole: bool = False) -> Draw:
    """Reads what a file says of a value: a list, a mapping with both ends, or one value that is always taken.

    name: of the value, whose ending says the unit of numbers. whole: whether it takes whole numbers only. Raises
    ValueError with the remedy.
    """
    if isinstance(value, OneOf | Between):
        return value
    if isinstance(value, Mapping) and {*ENDS} & value.keys():
        return _between(value, name, whole)
    listed = value if isinstance(value, list) else [value]
    if not listed:
        raise ValueError(f"an empty list has nothing to draw; {FORMS}")
    return OneOf(tuple(_plain(each, name) for each in listed))


LEAST = 1e-9
"""Least value of a number that must be above 0."""
LARGEST = 1e300
"""Bound on the amount of any number."""


def read_numbers(value: Any, name: str, *, whole: bool = False, least: float = 0.0, most: float = math.inf) -> Draw:
    """As `read_draw`, for numbers from `least` (LEAST: above 0) to `most`."""
    found = read_draw(value, name, whole=whole)
    for each in found.extremes:
        if not is_number(each):
            raise ValueError(f"{each!r} is no number; {FORMS}")
        if whole and not float(each).is_integer():
            raise ValueError(f"{each!r} is no whole number; give whole numbers")
        if not least <= each <= most:
            limit = "above 0" if least == LEAST else f"at least {least:g}"
            limit += f" and at most {most:g}" if most < math.inf else ""
            raise ValueError(f"must be {limit}, got {each!r}")
    return OneOf(tuple(map(int, found.values))) if whole and isinstance(found, OneOf) else found


def _between(value: Mapping[Any, Any], name: str, whole: bool) -> Between:
    known = (*ENDS, LOG)
    for key in value:
        if key not in known:
            raise ValueError(f"unknown key {key!r} beside from and to; {suggest(str(key), known)}")
    for end in ENDS:
        if end not in value:
            raise ValueError(f"has no {end!r}; a range has both ends, {{from: LOW, to: HIGH}}")
    log = value.get(LOG, False)
    if not isinstance(log, bool):
        raise ValueError(f"log: {log!r}; write log: true, or leave it out")
    low, high = (_plain(value[end], name) for end in ENDS)
    for end, each in zip(ENDS, (low, high), strict=True):
        if not is_number(each):
            raise ValueError(f"{end}: {each!r} is no number; for other values write a list")
        if whole and not float(each).is_integer():
            raise ValueError(f"{end}: {each!r} is no whole number, as it takes here")
    if not low < high:
        raise ValueError(
            f"from {low:g} to {high:g} has no width; the lower end comes first, and one value stands alone"
        )
    if log and low <= 0:
        raise ValueError(f"log: true needs a lower end above 0, got {low:g}")
    return Between(float(low), float(high), log, whole)


def is_number(value: Any) -> bool:
    """Whether a value is a finite number, and none that no float holds."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < LARGEST


def _plain(value: Any, name: str) -> Any:
    """Numbers with units as numbers; anything else unchanged."""
    try:
        return number(value, name) if isinstance(value, str) else value
    except ValueError as error:
        if value[:1].isdigit() and not isinstance(error, UnicodeError) and "is no number" not in str(error):
            raise
        return value


def read_weights(value: Any, read: Callable[[Any], Any]) -> dict[Any, float]:
    """Reads outcomes with relative frequencies: a mapping, or a list or a single one, equally likely. read: makes an
    outcome of what is written, or raises ValueError. Raises ValueError with the remedy."""
    if isinstance(value, Mapping):
        given = dict(value)
    else:
        listed = value if isinstance(value, list) else [value]
        if nested := [each for each in listed if isinstance(each, list | Mapping)]:
            raise ValueError(f"{nested[0]!r} is no outcome; write names, or a mapping from these to frequencies")
        given = dict.fromkeys(listed, 1.0)
        if len(given) < len(listed):
            raise ValueError("names one twice; write a mapping for frequencies, such as {storm: 2, flink: 1}")
    weights = {read(outcome): weight for outcome, weight in given.items()}
    for outcome, weight in weights.items():
        if not is_number(weight) or weight < 0:
            raise ValueError(f"{outcome}: {weight!r} is no frequency; give a number from 0, relative to the others")
    if not sum(weights.values()) > 0:
        raise ValueError("nothing has a frequency above 0; give at least one")
    return {outcome: float(weight) for outcome, weight in weights.items() if weight > 0}
