"""Values as Flink's configuration and plans write them: times (`10 s`), sizes (`256mb`), words, and its memory model.

Units are those of Flink's `TimeUtils` and `MemorySize`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
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
"""Units of time, by their names, in the singular."""
BYTES = {
    name: 1024**power
    for power, names in enumerate(("b bytes", "k kb kibibytes", "m mb mebibytes", "g gb gibibytes", "t tb tebibytes"))
    for name in names.split()
}
"""Units of size, by their names; they are powers of 1024."""
NEVER_S = 1e7
"""Longest time that a scenario takes: for what never happens. Flink's own is its longest number of milliseconds."""
_NUMBER = r"(\d+) *([^\W\d]*)"


def seconds_in(text: str, unit: str | None = None) -> float:
    """Seconds of a time as Flink writes it: `10 s`, `1 d`, `1 h 30 min`, `500 ms`, `PT1M30S`. unit: of a number
    without one. Raises BadInput for any other unit, naming it."""
    iso = re.fullmatch(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", text.strip())
    if iso and any(iso.groups()):
        days, hours, minutes, seconds = (float(each or 0) for each in iso.groups())
        return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    if clock := re.fullmatch(r"(\d+):(\d\d):(\d\d(?:\.\d+)?)", text.strip()):
        return (int(clock[1]) * 60 + int(clock[2])) * 60 + float(clock[3])
    parts = re.findall(_NUMBER, text)
    if not parts or re.sub(_NUMBER, "", text).strip():
        raise BadInput(f"Flink's plan or configuration has the time {text!r}; one such as '10 s' or '1 d' is expected")
    found = 0.0
    for number, written in parts:
        name = written.lower() or unit or ""
        if (known := SECONDS.get(name) or SECONDS.get(name.removesuffix("s"))) is None:
            raise BadInput(f"the time {text!r} has the unit {written!r}; known are {', '.join(SECONDS)}")
        found += int(number) * known
    return found


def time_s(text: str) -> float:
    """Seconds of an option, whose numbers without a unit are milliseconds. Raises BadInput for what is no time."""
    return seconds_in(text, "ms")


def set_s(settings: Mapping[str, str], key: str) -> float | None:
    """Seconds of a setting; None if it is not set. Raises BadInput, beginning with the key, for what is no time."""
    return _read(key, settings[key], time_s) if key in settings else None


def some_time_s(text: str) -> float | None:
    """As `time_s`; None if the time is 0, or as long as for ever."""
    found = time_s(text)
    return found if 0.0 < found <= NEVER_S else None


def buffer_timeout_s(text: str) -> float:
    """Seconds after which buffers that are not full leave. Flink's 0 is at once, which is the least time that a
    scenario takes, and -1 is never."""
    return NEVER_S if text.startswith("-1") else min(max(1e-6, time_s(text)), NEVER_S)


def size_bytes(text: str) -> int:
    """Bytes of a size: `32kb`, `1g`, `1024`. Raises BadInput for what is no size."""
    found = re.fullmatch(r"(\d+) *([a-z]*)", text.strip().lower())
    unit = BYTES.get(found[2] or "b") if found else None
    if found is None or unit is None:
        raise BadInput(f"{text!r} is no size; one such as '32kb' or '1g' is expected")
    return int(found[1]) * unit


def number(text: str) -> float:
    """Number of an option. Raises BadInput for what is none."""
    try:
        return float(text)
    except ValueError:
        raise BadInput(f"{text!r} is no number; one is expected") from None


def count(text: str) -> int:
    """Whole number of an option. Raises BadInput for what is none."""
    found = number(text)
    if found != int(found):
        raise BadInput(f"{text!r} is no whole number; one is expected")
    return int(found)


def tolerated(text: str) -> int | None:
    """Number of failures that are tolerated; None if it is Flink's largest, which is any number."""
    found = count(text)
    return found if found <= 10**6 else None


def one_of(**words: Any) -> Callable[[str], Any]:
    """Reader of an option that is one of these words, written with hyphens or underscores: what it is here. The reader
    raises BadInput for another word."""

    def read(text: str) -> Any:
        word = text.strip().lower().replace("-", "_")
        if word not in words:
            raise BadInput(f"{text!r} is none of {', '.join(words).replace('_', '-')}")
        return words[word]

    return read


# memory of a task manager --------------------------------------------------------------------------------------------

MEMORY = "taskmanager.memory."
PROCESS_SIZE, FLINK_SIZE = f"{MEMORY}process.size", f"{MEMORY}flink.size"
SIZES = {
    "jvm-metaspace.size": "256m",
    "jvm-overhead.min": "192m",
    "jvm-overhead.max": "1g",
    "network.min": "64m",
    "framework.heap.size": "128m",
    "framework.off-heap.size": "128m",
    "task.off-heap.size": "0",
}
"""Flink's defaults, by option. Network memory has no upper bound in today's versions."""
SHARES = {"jvm-overhead.fraction": 0.1, "network.fraction": 0.1}


def ram_mb(settings: Mapping[str, str]) -> float | None:
    """Heap and managed memory of a task manager, in megabytes of 10^6 bytes; None if no size of it is set.

    Of the memory of the process go the JVM's metaspace and overhead, of what remains, Flink's, the network's and the
    memory off the heap; the rest is heap and managed memory (Flink, "Set up TaskManager Memory"). Raises BadInput,
    naming the option, for what is no size or number.
    """

    def size(name: str) -> float:
        text = settings.get(MEMORY + name, SIZES.get(name))
        return float("inf") if text is None else _read(MEMORY + name, text, size_bytes)

    def share(name: str) -> float:
        return _read(MEMORY + name, settings.get(MEMORY + name, str(SHARES[name])), number)

    def part(name: str, of: float) -> float:
        return min(max(share(f"{name}.fraction") * of, size(f"{name}.min")), size(f"{name}.max"))

    exact = ("task.heap.size", "managed.size")
    if all(MEMORY + name in settings for name in exact):
        return float(round((sum(map(size, exact)) + size("framework.heap.size")) / 1e6))
    if FLINK_SIZE in settings:
        flink = size("flink.size")
    elif PROCESS_SIZE in settings:
        process = size("process.size")
        flink = process - size("jvm-metaspace.size") - part("jvm-overhead", process)
    else:
        return None
    off_heap = size("framework.off-heap.size") + size("task.off-heap.size")
    left = flink - part("network", flink) - off_heap
    if left <= 0.0:
        key = FLINK_SIZE if FLINK_SIZE in settings else PROCESS_SIZE
        raise BadInput(f"{key}: so small that no heap is left; give more")
    return float(round(left / 1e6))


def _read(key: str, text: str, read: Callable[[str], float]) -> float:
    try:
        return read(text)
    except BadInput as error:
        raise BadInput(f"{key}: {error}") from None
