"""Times, windows and gaps in Flink's descriptions of operators and in its configuration."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from twin.errors import BadInput

SECONDS = {
    name: seconds
    for seconds, names in (
        (1e-9, "ns nano nanosecond"),
        (1e-6, "us µs micro microsecond"),
        (1e-3, "ms milli millisecond"),
        (1.0, "s sec second"),
        (60.0, "m min minute"),
        (3600.0, "h hour"),
        (86400.0, "d day"),
    )
    for name in names.split()
}
"""Units of time, by their names in Flink's plans and configuration (TimeUtils), in the singular."""
TIME = r"\[([^\]]*)\]"
"""A time in the description of a SQL operator."""
NUMBER = r"(\d+) *([^\W\d]*)"
ATTACHED = re.compile(r"\b(TUMBLE|HOP|CUMULATE|SESSION)\((?=[^)]*\bwin_(?:start|end)=)")
"""Windows of results of windows, which have their bounds as columns."""


def seconds_in(text: str, unit: str | None = None) -> float:
    """Seconds of a time as Flink writes it: `10 s`, `1 d`, `1 h 30 min`, `500 ms`, `PT1M30S`. unit: of a number
    without one. Raises BadInput for any other unit, naming it."""
    iso = re.fullmatch(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", text.strip())
    if iso and any(iso.groups()):
        days, hours, minutes, seconds = (float(each or 0) for each in iso.groups())
        return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    if clock := re.fullmatch(r"(\d+):(\d\d):(\d\d(?:\.\d+)?)", text.strip()):
        return (int(clock[1]) * 60 + int(clock[2])) * 60 + float(clock[3])
    parts = re.findall(NUMBER, text)
    if not parts or re.sub(NUMBER, "", text).strip():
        raise BadInput(f"Flink's plan or configuration has the time {text!r}; one such as '10 s' or '1 d' is expected")
    found = 0.0
    for number, written in parts:
        name = written.lower() or unit or ""
        if (known := SECONDS.get(name) or SECONDS.get(name.removesuffix("s"))) is None:
            raise BadInput(f"the time {text!r} has the unit {written!r}; known are {', '.join(SECONDS)}")
        found += int(number) * known
    return found


def set_s(settings: Mapping[str, str], key: str) -> float | None:
    """Seconds of a setting, whose numbers without a unit are milliseconds; None if it is not set. Raises BadInput,
    naming the key, for what is no time."""
    if key not in settings:
        return None
    try:
        return seconds_in(settings[key], "ms")
    except BadInput as error:
        raise BadInput(f"{key}: {error}; a time such as '100 ms' is expected") from None


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
