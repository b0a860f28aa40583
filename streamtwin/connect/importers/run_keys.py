"""Keys that the generator of the published runs makes, by class (ZeroTune: DataTuple, AbstractQueryBuilder.getKey).

A key is the tuple's first value of the class combined with the last digit d of its time stamp: one of 62 characters
followed by d; an integer in -10..10, or hundredths in -0.05..0.05, times the character code of d (48..57). Without a
class, it is the last two digits of the time stamp. Digits and values are alike; products are not.
"""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Iterable, Mapping

from twin.key_skew import KeySkew

DIGITS = string.digits
CHARACTERS = string.ascii_letters + string.digits


def _skew(made: Iterable[int | float | str]) -> KeySkew:
    counts = Counter(made)
    alike = len(set(counts.values())) == 1
    return KeySkew(keys=tuple(counts), shares=() if alike else tuple(float(each) for each in counts.values()))


KEYS: Mapping[str, KeySkew] = {
    "String": _skew(character + digit for character in CHARACTERS for digit in DIGITS),
    "Integer": _skew(value * ord(digit) for value in range(-10, 11) for digit in DIGITS),
    "Double": _skew(value / 100 * ord(digit) for value in range(-5, 6) for digit in DIGITS),
    "Timestamp": _skew(first + second for first in DIGITS for second in DIGITS),
}
KEY_FIELDS: Mapping[str, str] = {"join": "joinKeyClass", "aggregate": "keyByClass"}
"""Where an operator of a kind says the class of its keys."""
