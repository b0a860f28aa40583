"""Times, windows and gaps in Flink's descriptions of operators."""

from __future__ import annotations

import math
import re
from typing import Any

from twin.errors import BadInput
from twin.flink_values import seconds_in

TIME = r"\[([^\]]*)\]"
"""A time in the description of a SQL operator."""
ATTACHED = re.compile(r"\b(TUMBLE|HOP|CUMULATE|SESSION)\((?=[^)]*\bwin_(?:start|end)=)")
"""Windows of results of windows, which have their bounds as columns."""
INTERVALS = ("DAY", "HOUR", "MINUTE", "SECOND")
"""Units of intervals of time in SQL plans, or the first of two (`DAY TO SECOND`)."""


def window_in(text: str) -> dict[str, Any] | None:
    """Time window in a description; None if there is none.

    Results of windows that are put together by their bounds come when these windows end: those are tumbling windows, as
    long as the slide. A cumulating window is one that slides by its step.
    """
    if found := re.search(r"(?:Tumbling\w*TimeWindows\(|TumblingGroupWindow\([^,]*, [^,]*, )(\d+)", text):
        return {"policy": "time", "size_s": int(found[1]) / 1000}
    if found := re.search(r"(?:Sliding\w*TimeWindows\(|SlidingGroupWindow\([^,]*, [^,]*, )(\d+),\s*(\d+)", text):
        return {"policy": "time", "size_s": int(found[1]) / 1000, "slide_s": int(found[2]) / 1000}
    if found := re.search(rf"TUMBLE\(.*?size={TIME}", text):
        return {"policy": "time", "size_s": seconds_in(found[1])}
    slides = re.search(rf"(?:HOP|CUMULATE)\(.*?(?:max_)?size={TIME}.*?(?:slide|step)={TIME}", text)
    if slides is None:
        return None
    size_s, slide_s = seconds_in(slides[1]), seconds_in(slides[2])
    ends = ATTACHED.search(text) is not None
    return {"policy": "time", "size_s": slide_s} if ends else {"policy": "time", "size_s": size_s, "slide_s": slide_s}


def gap_s_in(text: str) -> float | None:
    """Gap (s) of the session windows in a description; None if there is none."""
    if found := re.search(r"(?:TimeSessionWindows\(|SessionGroupWindow\([^,]*, [^,]*, )(\d+)", text):
        return int(found.group(1)) / 1000
    if found := re.search(rf"SESSION\(.*?gap={TIME}", text):
        return seconds_in(found[1])
    return None


def watermark_delay_s(text: str) -> float | None:
    """Delay (s) of the watermarks that an operator of a SQL plan assigns; None if it assigns none.

    Plans write an interval of days to seconds as a number of milliseconds. Raises BadInput for another unit.
    """
    _, begins, rest = text.partition("watermark=[")
    if not begins:
        return None
    found = re.search(r"(\d+):INTERVAL (\w+)", _bracketed(rest))
    if found and found[2] not in INTERVALS:
        raise BadInput(f"a watermark is behind by an INTERVAL {found[2]}; known: {', '.join(INTERVALS)}")
    return int(found[1]) / 1000 if found else 0.0


def _bracketed(text: str) -> str:
    """Text up to the bracket that closes one before it."""
    depth = 1
    for at, char in enumerate(text):
        depth += (char == "[") - (char == "]")
        if depth == 0:
            return text[:at]
    return text


def keys_that_give(distinct: float, content: float, before: float = 0.0) -> float:
    """Number of keys, all alike, of which `content` random records have `distinct` ones on average that none of the
    `before` records ahead of them had.

    K (exp(-before / K) - exp(-(before + content) / K)) = distinct, by bisection over K; infinite where each record has
    a key of its own. The left side is the integral of exp(-x / K) over these records x, so it grows with K.
    """

    def given_by(keys: float) -> float:
        return -keys * math.exp(-before / keys) * math.expm1(-content / keys)

    if distinct >= content:
        return math.inf
    low, high = distinct, distinct
    while given_by(high) < distinct and high < 1e12:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if given_by(middle) < distinct else (low, middle)
    return high
