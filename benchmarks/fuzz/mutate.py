"""Small changes of data, text and bytes, like those of typing errors, failing disks and malice."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, MutableMapping, MutableSequence
from random import Random
from typing import Any

NUMBERS = (
    *(0, -0.0, 1, -1, 0.5, 2, 3, 7, 10, 100, 1e3, 1e6, 1e9, 1e12, 1e18, 1e30, 1e300, 1.7e308),
    *(5e-324, 1e-308, 1e-160, 1e-30, 1e-12, 1e-9, 1e-6, 1e-3, 2**31, 2**63, 2**64, 10**25),
    *(float("inf"), float("-inf"), float("nan"), True, False),
)
PLAIN_WORDS = (
    "a on null ~ ../.. / /dev/null a/0 a->b 1e400 -1 nan 0x10 1_000 !!python/object:os.system "
    "storm brisk flink hash forward broadcast constant poisson count time join sink"
)
WORDS = (*PLAIN_WORDS.split(), "", " ", "a/9", "<<", "x" * 300, "\0", "\ufeff", "é", "\u202e", "😀", "{{7*7}}", "$(id)")
Node = MutableMapping[str, Any] | MutableSequence[Any]


def any_value(random: Random) -> Any:
    """Random value, often of another type than the one that it replaces."""
    plain: list[Callable[[], Any]] = [lambda: random.choice(NUMBERS), lambda: random.choice(WORDS), lambda: None]
    nested: list[Callable[[], Any]] = [list, dict, lambda: [random.choice(NUMBERS)], lambda: {"a": 1}]
    return random.choice([*plain, *plain, *plain, *nested])()


def other_number(value: float, random: Random) -> float:
    """Random number: near the given one, far from it, or unrelated to it."""
    far = value * 10 ** random.randint(-12, 12)
    return random.choice((far, value * 10 ** random.uniform(-1, 1), -value, value + 1, random.choice(NUMBERS)))


def places(data: Node) -> Iterator[tuple[Node, Any]]:
    """Yields each container with each of its keys or indices, at every depth."""
    for key in list(data) if isinstance(data, MutableMapping) else range(len(data)):
        yield data, key
        if isinstance(data[key], MutableMapping | MutableSequence):
            yield from places(data[key])


def changed_data(data: Node, random: Random, *, numbers_only: bool = False) -> Node:
    """Copy with one to four changes: values replaced, scaled, swapped, removed, doubled, moved elsewhere."""
    data = copy.deepcopy(data)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        where = [place for place in places(data) if not numbers_only or _is_number(place[0][place[1]])]
        if where:
            _change(*random.choice(where), where, random, numbers_only)
    return data


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _change(node: Any, key: Any, where: list[tuple[Any, Any]], random: Random, numbers_only: bool) -> None:
    value, way = node[key], random.randrange(8)
    if _is_number(value) and (numbers_only or way < 4):
        node[key] = other_number(value, random)
    elif way < 4:
        node[key] = any_value(random)
    elif way == 4:
        del node[key]
    elif way == 5:
        other, its_key = random.choice(where)
        if its_key in other if isinstance(other, MutableMapping) else its_key < len(other):
            node[key] = copy.deepcopy(other[its_key])
    elif isinstance(node, MutableSequence):
        node.insert(random.randint(0, len(node)), copy.deepcopy(value))
    else:
        node[f"{key}{random.choice(('s', '', ' ', '_s'))}"] = any_value(random)


def changed_text(text: str, random: Random) -> str:
    """Text with characters, lines and words removed, doubled, swapped or put in."""
    for _ in range(random.choice((1, 1, 2, 5))):
        at, until = sorted(random.randint(0, len(text)) for _ in range(2))
        until = min(until, at + random.choice((1, 3, 40)))
        put = random.choice(
            ("", text[at:until] * 2, random.choice(WORDS), str(random.choice(NUMBERS)), *"[]{}:-,&*'\"\t\n#|>%@")
        )
        text = text[:at] + put + text[until:]
    return text


def changed_bytes(content: bytes, random: Random) -> bytes:
    """Bytes of which some are flipped, a piece is cut out, or the end is cut off."""
    way = random.randrange(4)
    if way == 0:
        return content[: random.randint(0, len(content))]
    if way == 1:
        at, until = sorted(random.randint(0, len(content)) for _ in range(2))
        return content[:at] + content[until:]
    changed = bytearray(content)
    for _ in range(random.choice((1, 1, 10, 1000))):
        changed[random.randrange(len(changed))] = random.randrange(256)
    return bytes(changed)
