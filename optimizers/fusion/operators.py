"""An operator as fusion sees it: its kind, what its tuples hold, and by which attributes it may be parallelised."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from twin.errors import suggest
from twin.event_windows.window import EventWindow
from twin.kinds.operator import Name
from twin.spec import Spec

Kind = Literal["source", "map", "compute", "consolidate", "sink"]
STATEFUL: frozenset[Kind] = frozenset({"compute", "consolidate"})


def _once(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"attribute {name!r} is named {names.count(name)} times; name it once")
    return names


Schema = Annotated[tuple[Name, ...], AfterValidator(_once)]


class FusionOperator(Spec):
    """<IS, OS, PA> of Enorm, Section 4.3, and what fusing must know besides.

    schema_in, schema_out: attributes of the tuples that it takes and gives; a source takes none, a sink gives none.
    partition_by: PA, attributes of its input by which it may be split, all of which decide where its state is; `all`:
    it takes its tuples however they are split. Maps and sinks do unless they say otherwise; what keeps state must say.
    Empty: it cannot be split. passes: attributes whose values its output has unchanged; absent: all that are in both
    schemas. windows: what a consolidate forms, or a compute whose results are complete windows. replicas: how many
    are wanted.
    """

    name: Name
    kind: Kind
    schema_in: Schema = ()
    schema_out: Schema = ()
    partition_by: Literal["all"] | Schema | None = None
    passes: Schema | None = None
    windows: tuple[EventWindow, ...] = ()
    replicas: Annotated[int, Field(ge=1, le=100_000)] = 1

    @model_validator(mode="after")
    def _check(self) -> Self:
        self._check_schemas()
        if self.partition_by is None and self.kind in STATEFUL:
            raise ValueError(f"{self.what} has no partition_by; name its keys, or [] if its state is for all tuples")
        if self.partition_by is not None and self.kind == "source":
            raise ValueError(f"{self.what} has partition_by; the broker decides what a source reads, leave it out")
        if self.kind == "consolidate" and not self.windows:
            raise ValueError(f"{self.what} has no windows; say which ones it forms")
        if self.kind not in STATEFUL and self.windows:
            raise ValueError(f"{self.what} has windows; only compute and consolidate keep state for them")
        return self

    def _check_schemas(self) -> None:
        if (self.kind == "source") == bool(self.schema_in):
            raise ValueError(f"{self.what}: schema_in must be empty for a source, and for nothing else")
        if (self.kind == "sink") == bool(self.schema_out):
            raise ValueError(f"{self.what}: schema_out must be empty for a sink, and for nothing else")
        if isinstance(self.partition_by, tuple):
            self._check_known("partition_by", self.partition_by, self.schema_in)
        self._check_known("passes", self.passes or (), [name for name in self.schema_in if name in self.schema_out])

    def _check_known(self, where: str, names: Iterable[str], known: Iterable[str]) -> None:
        for name in names:
            if name not in set(known):
                raise ValueError(f"{self.what}: {where} names {name!r}; {suggest(name, known)}")

    @property
    def what(self) -> str:
        """For messages."""
        return f"{self.kind} {self.name!r}"

    @property
    def free(self) -> bool:
        """Whether it takes its tuples however they are split and keeps nothing: it may also stay with its producer."""
        return self.kind in ("map", "sink") and self.partition_by in ("all", None)

    @property
    def attributes(self) -> tuple[str, ...]:
        """PA(O): attributes of its input by which it may be split; a source has none."""
        return self.partition_by if isinstance(self.partition_by, tuple) else self.schema_in

    @cached_property
    def sent(self) -> frozenset[str]:
        """Attributes of its output."""
        return frozenset(self.schema_out)

    @cached_property
    def passed(self) -> frozenset[str]:
        """Attributes whose values are the same in its output as in its input."""
        both = self.sent & frozenset(self.schema_in)
        return both if self.passes is None else frozenset(self.passes)
