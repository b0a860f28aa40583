"""Key groups of keys as Flink finds them: Java's hash of a key is mixed by MurmurHash3, and the rest of that on
division by the number of key groups is the key group (`MathUtils.murmurHash`, `KeyGroupRangeAssignment`).

It is for keys that are an `Integer`, a `Long`, a `Double` or a `String`; Flink SQL hashes rows in another way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

JavaClass = Literal["int", "long", "double", "string"]
INTEGERS = range(-(2**31), 2**31)
LEAST_GROUPS, MOST_GROUPS = 128, 2**15


def default_key_groups(replicas: int) -> int:
    """Maximum parallelism that Flink chooses where none is set: a power of 2, at least 1.5 times the replicas."""
    wanted = replicas + replicas // 2
    return min(max(1 << (wanted - 1).bit_length(), LEAST_GROUPS), MOST_GROUPS)


def java_class(keys: Sequence[int | float | str]) -> JavaClass:
    """Java class of keys that are written like this. Raises ValueError if words are among numbers."""
    words = [isinstance(key, str) for key in keys]
    if all(words):
        return "string"
    if any(words):
        raise ValueError("keys are numbers or words, not both; put numbers that are words in quotes")
    if any(isinstance(key, float) for key in keys):
        return "double"
    return "int" if all(key in INTEGERS for key in keys) else "long"


def java_hashes(keys: Sequence[int | float | str] | np.ndarray, java: JavaClass) -> np.ndarray:
    """`hashCode()` of each key, as unsigned numbers of 32 bits. [keys]"""
    if java == "string":
        return np.array([_string_hash(str(key)) for key in keys], dtype=np.uint32)
    if java == "int":
        return np.asarray(keys, dtype=np.int64).astype(np.uint32)
    bits = np.asarray(keys, dtype=np.float64 if java == "double" else np.int64).view(np.uint64)
    return np.asarray((bits ^ (bits >> np.uint64(32))).astype(np.uint32))


def _string_hash(text: str) -> int:
    """`hashCode()` of a string: Horner's rule in base 31 over units of UTF-16."""
    units = np.frombuffer(text.encode("utf-16-be"), dtype=">u2").tolist()
    found = 0
    for unit in units:
        found = (31 * found + unit) & 0xFFFFFFFF
    return found


def murmur(codes: np.ndarray) -> np.ndarray:
    """MurmurHash3 of 32 bits, of 4 bytes each, seed 0, without its sign: 0 to 2^31 - 1. [codes]"""
    mixed = _rotated(codes.astype(np.uint32) * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    mixed = _rotated(mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    mixed ^= np.uint32(4)  # number of bytes
    mixed = (mixed ^ (mixed >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    mixed = (mixed ^ (mixed >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    mixed ^= mixed >> np.uint32(16)
    signed = np.abs(mixed.view(np.int32).astype(np.int64))
    return np.where(signed == 2**31, 0, signed)


def _rotated(codes: np.ndarray, by: int) -> np.ndarray:
    return np.asarray((codes << np.uint32(by)) | (codes >> np.uint32(32 - by)))


def key_groups_of_keys(keys: Sequence[int | float | str] | np.ndarray, java: JavaClass, groups: int) -> np.ndarray:
    """Key group of each key. [keys]"""
    return np.asarray(murmur(java_hashes(keys, java)) % groups)
