"""Keys of streams: how unevenly records are spread over them, their key groups as Flink finds them, and alignments."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import (
    Field,
    StrictFloat,
    StrictInt,
    StrictStr,
    ValidationError,
    ValidatorFunctionWrapHandler,
    field_validator,
    model_validator,
)

from twin.spec import Spec

# Flink's hash --------------------------------------------------------------------------------------------------------
# Key groups of keys as Flink finds them: Java's hash of a key is mixed by MurmurHash3, and the rest of that on
# division by the number of key groups is the key group (`MathUtils.murmurHash`, `KeyGroupRangeAssignment`). A topic's
# hash says who reads its first partition.
#
# It is for keys that are an `Integer`, a `Long`, a `Double` or a `String`; Flink SQL hashes rows in another way.


JavaClass = Literal["int", "long", "double", "string"]
INTEGERS = range(-(2**31), 2**31)
LEAST_GROUPS, MOST_GROUPS = 128, 2**15


def default_key_groups(parallelism: int) -> int:
    """Maximum parallelism that Flink chooses where none is set: a power of 2, at least 1.5 times the subtasks."""
    wanted = parallelism + parallelism // 2
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


def first_reader(topic: str, parallelism: int) -> int:
    """Number of the subtask that reads partition 0 of a topic of that name, in Flink (`KafkaSourceEnumerator`)."""
    return (_string_hash(topic) * 31 & 0x7FFFFFFF) % parallelism


# skew ----------------------------------------------------------------------------------------------------------------
# Key skew: how unevenly records are spread over an operator's key groups, by a law, as counted, or by the given keys.


Key = StrictInt | StrictFloat | StrictStr
LONGS = range(-(2**63), 2**63)


def zipf_shares(groups: int, exponent: float) -> np.ndarray:
    """Shares by rank, the largest first; they sum to 1. [groups]"""
    weights = np.arange(1, groups + 1, dtype=float) ** -exponent
    return np.asarray(weights / weights.sum())


class KeySkew(Spec):
    """Skew of the records into an operator over its key groups, and its drift.

    The k-th most frequent key group gets a share in proportion to k^-zipf; which one it is, the seed decides. Every
    `drift_every_s` seconds a random `drift_share` of the key groups exchange their ranks. Or each key group has the
    share that was measured. Or the keys themselves are given, and fall where Flink puts them: then `shares`, or `zipf`
    in the order in which they are given, say how frequent each is.
    """

    zipf: Annotated[float, Field(ge=0, le=10, description="exponent; 0: all alike")] = 0.0
    drift_every_s: Annotated[float | None, Field(ge=1e-6, description="absent: no drift")] = None
    drift_share: Annotated[float, Field(gt=0, le=1, description="share of the key groups that exchange ranks")] = 0.1
    shares: Annotated[
        tuple[Annotated[float, Field(ge=0)], ...],
        Field(
            exclude_if=lambda shares: not shares,
            description="instead: by key group, or by key, in any unit, such as records counted",
        ),
    ] = ()
    keys: Annotated[
        Annotated[int, Field(ge=1, le=10**7)] | tuple[Key, ...] | None,
        Field(
            exclude_if=lambda keys: keys is None,
            description="the keys, as Java's Integer, Long, Double or String; a number n: the integers 0 to n - 1",
        ),
    ] = None
    long_keys: Annotated[
        bool,
        Field(
            exclude_if=lambda given: not given, description="integer keys are Java's Long: negative ones hash otherwise"
        ),
    ] = False

    @field_validator("keys", mode="wrap")
    @classmethod
    def _say_once(cls, given: object, read: ValidatorFunctionWrapHandler) -> object:
        """Reports one mistake, not one for each form that keys may have."""
        try:
            return read(given)
        except ValidationError:
            raise ValueError("keys is a list of words or finite numbers, or a number of integers (1 to 10^7)") from None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.shares and (self.zipf or self.drift_every_s is not None):
            raise ValueError("shares of key groups are measured; leave out zipf and drift_every_s")
        if self.shares and not sum(self.shares) > 0:
            raise ValueError("shares of key groups must not all be 0")
        if self.long_keys and self.keys is None:
            raise ValueError("long_keys is about keys; give keys, or leave it out")
        if self.keys is not None:
            self._check_keys()
        return self

    def _check_keys(self) -> None:
        if self.drift_every_s is not None:
            raise ValueError("keys stay where Flink puts them; leave out drift_every_s, or keys")
        if isinstance(self.keys, tuple):
            if not self.keys:
                raise ValueError("keys must not be empty; list them, or give a number n for the integers 0 to n - 1")
            java = java_class(self.keys)
            if self.long_keys and java not in ("int", "long"):
                raise ValueError("long_keys is about integers, and keys has others; leave it out")
            if java in ("int", "long") and any(key not in LONGS for key in self.keys):
                raise ValueError("keys has integers of more than 64 bits, which Java's Long cannot hold")
            if len({(float(key) if java == "double" else key) for key in self.keys}) < len(self.keys):
                raise ValueError("keys has a key twice; list each once, and say with shares how frequent it is")
        if self.shares and len(self.shares) != self.key_count:
            raise ValueError(f"there are {len(self.shares)} shares for {self.key_count} keys; give one each")

    @property
    def key_count(self) -> int:
        """Number of keys that are given; 0 if none are."""
        return len(self.keys) if isinstance(self.keys, tuple) else self.keys or 0

    @property
    def placed(self) -> bool:
        """Whether it is known which key groups are the frequent ones."""
        return bool(self.shares) or self.keys is not None

    @property
    def uneven(self) -> bool:
        """Whether some key groups may get more than others."""
        return self.zipf > 0.0 or self.placed

    def by_group(self, groups: int) -> np.ndarray:
        """Share of each key group; they sum to 1. Empty if the frequent key groups are not known. [groups]"""
        if self.keys is None:
            return np.asarray(self.shares) / (sum(self.shares) or 1.0)
        weight_k = np.asarray(self.shares) if self.shares else zipf_shares(self.key_count, self.zipf)
        return np.asarray(np.bincount(self._group_k(groups), weight_k, minlength=groups) / weight_k.sum())

    def keys_by_group(self, groups: int) -> np.ndarray | None:
        """Number of given keys in each key group; None if none are given. [groups]"""
        if self.keys is None:
            return None
        return np.bincount(self._group_k(groups), minlength=groups).astype(float)

    def key_weights(self, groups: int) -> np.ndarray | None:
        """Frequency of each key, in the order of their key groups; None if no keys are given. [keys]"""
        if self.keys is None:
            return None
        weight_k = np.asarray(self.shares) if self.shares else zipf_shares(self.key_count, self.zipf)
        return np.asarray(weight_k[np.argsort(self._group_k(groups), kind="stable")])

    def _group_k(self, groups: int) -> np.ndarray:
        keys = self.keys if self.keys is not None else ()
        java: JavaClass = java_class(keys) if isinstance(keys, tuple) else "int"
        return _group_k(keys, "long" if self.long_keys else java, groups)


@lru_cache(maxsize=256)
def _group_k(keys: int | tuple[int | float | str, ...], java: JavaClass, groups: int) -> np.ndarray:
    found = key_groups_of_keys(np.arange(keys) if isinstance(keys, int) else keys, java, groups)
    found.flags.writeable = False
    return found


# keys that stay together ---------------------------------------------------------------------------------------------
# Alignments: keys that stay together from one operator to the next, by a pattern of key groups.
#
# Without an alignment the key group of a record in one operator says nothing of its key group in the next (full
# partitioning). The patterns are those of ALBIC (Madsen, Zhou, Cao 2016, Fig. 1).


Pattern = Literal["one-to-one", "partial-merge", "partial-partitioning"]


class Alignment(Spec):
    """Alignment of one stream between operators with key groups.

    one-to-one: key group k sends to key group k. partial-merge: each sends to one, neighbours to the same.
    partial-partitioning: each sends evenly to `degree` in a row. The rest of the records fall on all key groups.
    """

    pattern: Pattern
    share: Annotated[float, Field(gt=0, le=1, description="of the stream's records that keep to the pattern")] = 1.0
    degree: Annotated[int | None, Field(ge=1, description="receivers of each key group, of partial-partitioning")] = (
        None
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.degree is None) == (self.pattern == "partial-partitioning"):
            raise ValueError("degree is for partial-partitioning, which needs it, and for no other pattern")
        return self


def alignment_by_name(value: object) -> object:
    """Alignment by the name of its pattern, without options; anything else unchanged."""
    return {"pattern": value} if isinstance(value, str) else value


def parts(pattern: Alignment, producers: int, consumers: int) -> np.ndarray:
    """Share of each consumer key group in the output of each producer key group, by the pattern. [producers,
    consumers]; rows sum to 1."""
    degree = pattern.degree or 1
    found = np.zeros((producers, consumers))
    first = np.arange(producers) * consumers // producers
    for step in range(degree):
        found[np.arange(producers), (first + step) % consumers] = 1.0 / degree
    return found
