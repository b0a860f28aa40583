"""What all kinds of operators share, and what each says of itself: the rest of the house asks these, never the kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from pydantic import AfterValidator, Field, model_validator

from twin.calls import Calls
from twin.columns import Columns
from twin.kinds.ages import HeldTuples
from twin.kinds.flow import Flow, Mixing, OperatorRates
from twin.kinds.mechanism import Mechanism
from twin.spec import Spec

Name = Annotated[
    str, Field(min_length=1, pattern=r"^[\w.:@#-]+$", description="letters of any script, digits and _ . : @ # -")
]
Fraction = Annotated[float, Field(ge=0, le=1)]


class OperatorBase(Spec):
    """What all operators share. A given service time replaces what the engine profile would charge.

    The traits of a kind. is_source: it reads a broker and has no inputs; is_sink: results arrive here and go no
    further. joins: a result needs tuples of all of its inputs, which match by their key. thins: some tuples pass, as
    they are, and others do not. runs_alone: it cannot be one task with others. does: what it does, in a few words.
    costs_like: the kind whose cost per tuple a profile charges that does not name this one; empty: it must.
    """

    is_source: ClassVar[bool] = False
    is_sink: ClassVar[bool] = False
    joins: ClassVar[bool] = False
    thins: ClassVar[bool] = False
    needs_event_time: ClassVar[bool] = False
    merges: ClassVar[bool] = False
    runs_alone: ClassVar[bool] = False
    does: ClassVar[str] = ""
    costs_like: ClassVar[str] = "map"

    name: Name
    service_time_s: Annotated[
        float | None, Field(ge=0, le=10**7, description="mean CPU seconds per input tuple on one reference core")
    ] = None
    service_scv: Annotated[
        float | None, Field(ge=0, le=100, description="squared coefficient of variation of the service time")
    ] = None
    tuple_bytes: Annotated[
        float | None, Field(ge=1e-3, le=10**9, description="size of an emitted tuple; absent: by its columns")
    ] = None
    memory_bytes: Annotated[
        float | None, Field(ge=0, le=10**9, description="local memory traffic per input tuple; absent: by the engine")
    ] = None
    pinned: Annotated[
        bool,
        Field(exclude_if=lambda pinned: not pinned, description="stays where the plan has it, as a device does"),
    ] = False
    slot_sharing_group: Annotated[
        Name | None,
        Field(
            exclude_if=lambda group: group is None,
            description="operators share slots within one; absent: that of its inputs if these share one, else default",
        ),
    ] = None

    # traits ----------------------------------------------------------------------------------------------------------

    @property
    def keyed(self) -> bool:
        """Whether all tuples of a key belong on one replica."""
        return False

    @property
    def one_to_one(self) -> bool:
        """Whether each tuple that comes leaves as one, at once."""
        return False

    @property
    def hands_over(self) -> str:
        """What it sends: `tuples`, `pairs` of them that have met in event time, `partials` of windows over event time,
        complete such `windows`, or results that have no event time: `untimed`."""
        return "tuples"

    @property
    def memory_s(self) -> float:
        """Seconds for which a tuple counts; 0: only when it comes, or as long as a number of others have not."""
        return 0.0

    @property
    def gain(self) -> float:
        """Tuples that leave at once for each that comes, where no window holds them back."""
        return 1.0

    @property
    def bunches(self) -> bool:
        """Whether tuples that wait while its own results block it make the next burst of them larger."""
        return False

    @property
    def parts(self) -> int | None:
        """Number of partitions of a source, each of which one replica reads; None: it has no partitions."""
        return None

    @property
    def calls(self) -> Calls | None:
        """What it asks of a system outside for each tuple, if it waits for one."""
        return None

    def kept(self, attributes: frozenset[str]) -> frozenset[str]:
        """The attributes of its input that its output has with the same values."""
        return attributes if self.thins else frozenset()

    @property
    def if_unlike(self) -> str:
        """What its law does not see, which takes keys as alike and to come at random; nothing, if it needs not."""
        return ""

    def state_bytes(self, in_per_s: np.ndarray, horizon_s: float) -> np.ndarray:
        """What it holds beside windows and `state_bytes_per_group`, of all replicas, in so long a run. [N]"""
        return np.zeros_like(in_per_s)

    @property
    def piece_s(self) -> float:
        """Length of the partial results over event time that it hands over; 0: none are."""
        return 0.0

    @property
    def exclusive(self) -> bool:
        """Whether a tuple goes to one consumer at most."""
        return False

    def share_to(self, consumer: str) -> float:
        """Share of its output that goes to the consumer of that name."""
        return 1.0

    def passed_from(self, producer: str) -> float:
        """Share of the tuples of a producer that leave in results: 0 if they only change a state."""
        return 1.0

    def why_not_from(self, producers: Sequence[str]) -> str:
        """What is wrong with hearing these, with the remedy; or nothing."""
        return ""

    def why_not_to(self, consumers: Sequence[str]) -> str:
        """What is wrong with sending to these, with the remedy; or nothing."""
        return ""

    @property
    def counted(self) -> int | None:
        """Distinct values of its key; None where they are more than anyone counts."""
        return None

    def values(self, replicas: int) -> int:
        """Distinct values of its key; uncounted ones are as many as replicas."""
        return replicas if self.counted is None else self.counted

    def values_by_key_group(self, key_groups: int) -> np.ndarray:
        """How many of its distinct values fall into each key group, as evenly as can be; uncounted: 1. [key_groups]"""
        if self.counted is None:
            return np.ones(key_groups)
        return np.diff(np.arange(key_groups + 1, dtype=np.int64) * self.counted // key_groups).astype(float)

    # law -------------------------------------------------------------------------------------------------------------

    def columns_out(self, inputs: Sequence[Columns]) -> Columns:
        """The columns of its output: its own `columns` if it has some; else by those of its inputs, in any order."""
        given: Columns | None = getattr(self, "columns", None)
        return given or Columns(
            ints=max(each.ints for each in inputs),
            strings=max(each.strings for each in inputs),
            doubles=max(each.doubles for each in inputs),
        )

    def through(self, inputs: tuple[np.ndarray, ...], bursts: Sequence[np.ndarray], mixing: Mixing) -> Flow:
        """The flow through it. inputs: rates by input stream; bursts: their `bursts_per_s`. [N] each"""
        total, together, burst_s = mixing.arriving(inputs, bursts)
        none = np.zeros_like(total)
        return Flow(inputs, total, total, none, none, none, together, burst_s)

    def ages_s(self, arriving: np.ndarray, mixed: np.ndarray, held: HeldTuples) -> np.ndarray:
        """Of its results, from those of its input tuples: by input [3, K, N], and their mean [3, N]. [3, N]

        Rows are as in `twin.rates.latency`. Service and waits apart.
        """
        return mixed

    def selectivity_at(self, rates: OperatorRates) -> float:
        """Per Costream, Definitions 6 to 8; output per input tuple where there is no such definition."""
        return rates.out_per_s / rates.in_per_s if rates.in_per_s else 0.0

    # mechanism -------------------------------------------------------------------------------------------------------

    @property
    def mechanism(self) -> Mechanism:
        """What a replica does with tuples."""
        raise NotImplementedError

    # measured, and varied --------------------------------------------------------------------------------------------

    def measured_as(self, results_per_input: float) -> dict[str, Any]:
        """The fields that make it emit so many tuples an input tuple, as was measured; none if no field says it."""
        return {}

    def lowered(self, factor: float) -> Self:
        """The same with so many times the results, where a selectivity says how many."""
        return self

    # advice ----------------------------------------------------------------------------------------------------------

    def crowded(self, sides: int, zipf: float) -> str:
        """What in its parameters cannot be, with the remedy, given its inputs and skew of key groups; or nothing."""
        return ""

    def why_silent(self, taken: int, came: int) -> str:
        """Why nothing left it, with the remedy, though it took so many of the tuples that came; or nothing special."""
        return ""


def _once(names: tuple[str, ...] | None) -> tuple[str, ...] | None:
    for name in names or ():
        if (names or ()).count(name) > 1:
            raise ValueError(f"attribute {name!r} is named {(names or ()).count(name)} times; name it once")
    return names


class KeyedOperator(OperatorBase):
    """What operators share that may keep state by key. Tuples come by key group, and state moves by key group."""

    key_groups: Annotated[
        int | None, Field(ge=1, le=10**6, description="absent: replicas share the input evenly and nothing can move")
    ] = None
    state_bytes_per_group: Annotated[
        float, Field(ge=0, le=10**15, description="held for each key group beside the content of a window")
    ] = 0.0
    partition_by: Annotated[
        tuple[Name, ...] | None,
        AfterValidator(_once),
        Field(
            exclude_if=lambda names: names is None,
            description="attributes that it is keyed by; []: it cannot be split; absent: by some that no other has",
        ),
    ] = None

    @model_validator(mode="after")
    def _check_keys(self) -> Self:
        if self.state_bytes_per_group and self.key_groups is None:
            raise ValueError(f"{self.name!r}: state_bytes_per_group needs key_groups; give their number")
        return self

    @property
    def keyed(self) -> bool:
        """If it keeps state by key."""
        return self.key_groups is not None

    @property
    def counted(self) -> int | None:
        """Its `keys`, if it says how many there are."""
        return getattr(self, "keys", None)

    def require_keys(self, keys: int) -> None:
        """Raises ValueError if there are fewer distinct keys than key groups, so that some groups would be empty."""
        if self.key_groups is not None and keys < self.key_groups:
            raise ValueError(
                f"{self.name!r} has {keys} keys in {self.key_groups} key groups; give it at least as many keys"
            )
