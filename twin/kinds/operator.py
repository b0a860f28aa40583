"""Base classes of all kinds of operators, with the traits that other code asks for instead of the kind."""

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
    """Base of all operators. A given service time replaces the costs of the engine profile.

    The traits of a kind. is_source: it reads a broker and has no inputs. is_sink: results arrive here and go no
    further. joins: a result needs tuples of all of its inputs, which match by their key. thins: some tuples pass
    unchanged, and others do not. needs_event_time: it keeps state by event time. merges: its inputs are partial
    results. runs_alone: it cannot be chained with others. does: what it does, in a few words. costs_like: the kind
    whose cost per tuple is charged if a profile does not name this kind; if empty, every profile must name it.
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
        """Kind of output: `tuples`, `pairs` of them that have met in event time, `partials` of windows over event time,
        complete such `windows`, or results without event time: `untimed`."""
        return "tuples"

    @property
    def memory_s(self) -> float:
        """Seconds for which a tuple has an effect; 0 if only on arrival, or until a number of others have come."""
        return 0.0

    @property
    def gain(self) -> float:
        """Mean number of tuples that leave at once for each input tuple, if no window holds them back."""
        return 1.0

    @property
    def bunches(self) -> bool:
        """Whether tuples that wait while the operator's own results block it make its next burst of results larger."""
        return False

    @property
    def parts(self) -> int | None:
        """Number of partitions of a source, each of which one replica reads; None: it has no partitions."""
        return None

    @property
    def calls(self) -> Calls | None:
        """Calls to a system outside, one for each tuple; None if it makes none."""
        return None

    def kept(self, attributes: frozenset[str]) -> frozenset[str]:
        """Attributes of the input that the output has with the same values."""
        return attributes if self.thins else frozenset()

    @property
    def if_unlike(self) -> str:
        """Effect, in words, that the operator's law misses if keys are unlike or do not come at random; empty if
        none."""
        return ""

    def state_bytes(self, in_per_s: np.ndarray, horizon_s: float) -> np.ndarray:
        """State of all replicas at the end of a run of `horizon_s`, in bytes, without windows and
        `state_bytes_per_group`. [N]"""
        return np.zeros_like(in_per_s)

    @property
    def piece_s(self) -> float:
        """Length of the partial results over event time that it hands over; 0 if it hands over none."""
        return 0.0

    @property
    def exclusive(self) -> bool:
        """Whether a tuple goes to one consumer at most."""
        return False

    def share_to(self, consumer: str) -> float:
        """Share of the output that goes to the consumer of that name."""
        return 1.0

    def passed_from(self, producer: str) -> float:
        """Share of the tuples of a producer that leave in results: 0 if they only change a state."""
        return 1.0

    def why_not_from(self, producers: Sequence[str]) -> str:
        """Says what is wrong with these producers as inputs, with the remedy; empty if nothing is."""
        return ""

    def why_not_to(self, consumers: Sequence[str]) -> str:
        """Says what is wrong with these consumers, with the remedy; empty if nothing is."""
        return ""

    @property
    def counted(self) -> int | None:
        """Number of distinct values of the operator's key; None if it is not given."""
        return None

    def values(self, replicas: int) -> int:
        """Number of distinct values of the operator's key; as many as replicas if it is not given."""
        return replicas if self.counted is None else self.counted

    def values_by_key_group(self, key_groups: int) -> np.ndarray:
        """Number of distinct values in each key group, as even as can be; 1 if their number is not given.
        [key_groups]"""
        if self.counted is None:
            return np.ones(key_groups)
        return np.diff(np.arange(key_groups + 1, dtype=np.int64) * self.counted // key_groups).astype(float)

    # law -------------------------------------------------------------------------------------------------------------

    def columns_out(self, inputs: Sequence[Columns]) -> Columns:
        """Columns of the output: the operator's own `columns` if given; else by those of its inputs, in any order."""
        given: Columns | None = getattr(self, "columns", None)
        return given or Columns(
            ints=max(each.ints for each in inputs),
            strings=max(each.strings for each in inputs),
            doubles=max(each.doubles for each in inputs),
        )

    def through(self, inputs: tuple[np.ndarray, ...], bursts: Sequence[np.ndarray], mixing: Mixing) -> Flow:
        """Flow through the operator. inputs: tuples a second by input stream; bursts: their `bursts_per_s`. [N] each"""
        total, together, burst_s = mixing.arriving(inputs, bursts)
        none = np.zeros_like(total)
        return Flow(inputs, total, total, none, none, none, together, burst_s)

    def ages_s(self, arriving: np.ndarray, mixed: np.ndarray, held: HeldTuples) -> np.ndarray:
        """Ages of the results, without service and waits, in seconds. [3, N]

        arriving: ages of the input tuples, by input [3, K, N]; mixed: their mean [3, N]. Rows are as in
        `twin.rates.latency`.
        """
        return mixed

    def lasts_s(self, in_per_s: np.ndarray) -> np.ndarray:
        """Mean seconds for which tuples are collected before a result leaves, where only they decide on its end; else
        0. [N]

        in_per_s: tuples a second that come to the operator.
        """
        return np.zeros_like(in_per_s)

    def selectivity_at(self, rates: OperatorRates) -> float:
        """Selectivity by Costream, Definitions 6 to 8; output per input tuple for kinds without such a definition."""
        return rates.out_per_s / rates.in_per_s if rates.in_per_s else 0.0

    # mechanism -------------------------------------------------------------------------------------------------------

    @property
    def mechanism(self) -> Mechanism:
        """Description of the work that a replica does with tuples."""
        raise NotImplementedError

    # measured, and varied --------------------------------------------------------------------------------------------

    def measured_as(self, results_per_input: float) -> dict[str, Any]:
        """Fields that make it emit that many tuples per input tuple, as measured; empty if no field says it."""
        return {}

    def lowered(self, factor: float) -> Self:
        """Copy whose selectivity is multiplied by `factor`; the operator itself if it has no share of matches."""
        return self

    # advice ----------------------------------------------------------------------------------------------------------

    def crowded(self, sides: int, zipf: float) -> str:
        """Warns of parameters that cannot all hold, with the remedy; empty if they can. sides: number of inputs; zipf:
        skew of the key groups."""
        return ""

    def why_silent(self, taken: int, came: int) -> str:
        """Says why no result left, with the remedy, though `taken` of the tuples that `came` were taken in; empty if
        there is no special reason."""
        return ""


def _once(names: tuple[str, ...] | None) -> tuple[str, ...] | None:
    for name in names or ():
        if (names or ()).count(name) > 1:
            raise ValueError(f"attribute {name!r} is named {(names or ()).count(name)} times; name it once")
    return names


class KeyedOperator(OperatorBase):
    """Base of operators that may keep state by key. Tuples come by key group, and state moves by key group."""

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
        """Whether the operator keeps state by key: it has key groups."""
        return self.key_groups is not None

    @property
    def counted(self) -> int | None:
        """Number of distinct keys (the field `keys`); None if it is not given."""
        return getattr(self, "keys", None)

    def require_keys(self, keys: int) -> None:
        """Raises ValueError if there are fewer distinct keys than key groups, so that some groups would be empty."""
        if self.key_groups is not None and keys < self.key_groups:
            raise ValueError(
                f"{self.name!r} has {keys} keys in {self.key_groups} key groups; give it at least as many keys"
            )
