"""Operators that take one record after the other: filters, maps, and state by key."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from twin.columns import Columns, DataType
from twin.kinds.mechanism import Remembering
from twin.kinds.operator import Fraction, KeyedOperator, Name
from twin.kinds.selective import Selective

FilterFunction = Literal["<", ">", "<=", ">=", "!=", "startswith", "endswith"]


class Filter(Selective):
    """Passes a share `selectivity` of its input (Costream, Definition 6)."""

    thins: ClassVar[bool] = True
    does: ClassVar[str] = "lets a share of the records pass"
    costs_like: ClassVar[str] = ""

    kind: Literal["filter"] = "filter"
    selectivity: Fraction
    function: FilterFunction = "<"
    literal_type: DataType = "int"


class Map(Selective, KeyedOperator):
    """Emits `selectivity` records per input record: 1 is a map, above 1 a flat map (a word splitter emits 10)."""

    does: ClassVar[str] = "turns one record into another"
    costs_like: ClassVar[str] = ""

    kind: Literal["map"] = "map"
    selectivity: Annotated[float, Field(ge=0, le=10**6)] = 1.0
    columns: Annotated[Columns | None, Field(description="of the output; absent: as the input")] = None
    passes: Annotated[
        tuple[Name, ...],
        Field(exclude_if=lambda names: not names, description="attributes of its input that its output has unchanged"),
    ] = ()

    def kept(self, attributes: frozenset[str]) -> frozenset[str]:
        """Attributes that the operator passes unchanged (the field `passes`)."""
        return attributes & frozenset(self.passes)


class KeyedState(Map):
    """Map with a state for each key, which lives for `ttl_s` after the key's last record (Flink's state TTL), or for
    ever. Keys are equally frequent; where key groups are skewed (`workload.keys`), those of each group."""

    does: ClassVar[str] = "keeps a state for each key until it has been silent for long enough"
    costs_like: ClassVar[str] = "map"

    kind: Literal["keyed-state"] = "keyed-state"  # type: ignore[assignment]
    keys: Annotated[int, Field(ge=1, le=10**9, description="distinct keys in the stream")]
    ttl_s: Annotated[float | None, Field(gt=0, le=10**8, description="absent: states are never forgotten")] = None
    state_bytes_per_key: Annotated[float, Field(ge=0, le=10**9, description="of the state of one key")] = 100.0

    @property
    def keeps_rows(self) -> bool:
        """Always true: a state for each key."""
        return True

    @property
    def keyed(self) -> bool:
        """Always true: a state for each key."""
        return True

    @property
    def if_unlike(self) -> str:
        """Effect of unlike keys that the law misses, in words."""
        return f"that rare keys of {self.name} expire, so that it holds fewer than of equally frequent ones"

    def state_bytes(self, in_per_s: np.ndarray, horizon_s: float) -> np.ndarray:
        """State of all subtasks, in bytes: of K keys, those with a record within the time to live, or the run: K (1 -
        exp(-rate ttl / K)). [N]"""
        span_s = horizon_s if self.ttl_s is None else min(self.ttl_s, horizon_s)
        each = np.minimum(in_per_s * min(span_s, 1e9) / self.keys, 700.0)
        return np.asarray(-self.keys * np.expm1(-each) * self.state_bytes_per_key)

    @property
    def mechanism(self) -> Remembering:  # type: ignore[override]
        """Remembering for the time to live."""
        return Remembering(self.selectivity, self.ttl_s, self.state_bytes_per_key)
