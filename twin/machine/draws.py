"""Random numbers, in blocks that Python draws from the components' own generators."""

from __future__ import annotations

import math
from typing import Any

from twin.machine import layout as k
from twin.machine.native import call, compiled, float_at


@compiled
def uniform(s: Any, stream_address: int) -> float:
    """Random number, uniform on [0, 1)."""
    stream = k.stream_at(stream_address)
    if stream.uniforms_left == 0:
        call(s.call_python, k.UNIFORMS, stream_address)
    stream.uniforms_left -= 1
    return float_at(stream.uniforms + 8 * stream.uniforms_left).value


@compiled
def chance(s: Any, stream_address: int, kin: int, item: Any) -> float:
    """Number on [0, 1) that decides on a record's key: its lot, if it has one and copies of it have the same key."""
    return item.lot if kin and item.lot >= 0.0 else uniform(s, stream_address)


@compiled
def service(s: Any, stream_address: int) -> float:
    """Service time of mean 1."""
    stream = k.stream_at(stream_address)
    if stream.scv == 0.0:
        return 1.0
    if stream.services_left == 0:
        call(s.call_python, k.SERVICES, stream_address)
    stream.services_left -= 1
    return float_at(stream.services + 8 * stream.services_left).value


@compiled
def rounded(s: Any, stream_address: int, value: float) -> int:
    """Whole number with mean `value`: its floor, or one more."""
    floor = math.floor(value)
    return int(floor) + (1 if uniform(s, stream_address) < value - floor else 0)


@compiled
def bits(stream_address: int) -> int:
    """63 random bits, as NumPy's `integers` draws them."""
    stream = k.stream_at(stream_address)
    return (call(stream.next_bits, stream.generator, 0) >> 1) & (2**63 - 1)
