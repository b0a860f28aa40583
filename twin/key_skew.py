"""Key skew: how unevenly tuples are spread over an operator's key groups, by a law, as counted, or by the given
keys."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Self

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

from twin.flink_keys import JavaClass, java_class, key_groups_of_keys
from twin.spec import Spec

Key = StrictInt | StrictFloat | StrictStr
LONGS = range(-(2**63), 2**63)


def zipf_shares(groups: int, exponent: float) -> np.ndarray:
    """Shares by rank, the largest first; they sum to 1. [groups]"""
    weights = np.arange(1, groups + 1, dtype=float) ** -exponent
    return np.asarray(weights / weights.sum())


class KeySkew(Spec):
    """Skew of the tuples into an operator over its key groups, and its drift.

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
            description="instead: by key group, or by key, in any unit, such as tuples counted",
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
