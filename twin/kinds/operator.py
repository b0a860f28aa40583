"""Base classes of kinds of operators, with the traits that other code asks for instead of the kind.

`OperatorBase` is for all kinds, `KeyedOperator` for those that may keep state by key, and `Selective` for those that
pass records on at once. That of windows is in `twin.kinds.windowed`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, NamedTuple, Self

import numpy as np
from pydantic import AfterValidator, Field, model_validator

from twin.calls import Calls
from twin.kinds.flow import Columns, Flow, HeldRecords, Mixing, OperatorRates
from twin.kinds.mechanism import Mechanism, Selecting
from twin.spec import Spec
from twin.windows import EventWindow, Holds

# all operators -------------------------------------------------------------------------------------------------------


class StateAccess(NamedTuple):
    """Numbers of accesses, as means. reads, writes: for a record that comes. result_reads, result_writes: for a result
    of a window. bytes_each: size of what is read or written; None: of an accumulator, or of a record where there is
    none."""

    reads: float = 0.0
    writes: float = 0.0
    result_reads: float = 0.0
    result_writes: float = 0.0
    bytes_each: float | None = None


Name = Annotated[
    str, Field(min_length=1, pattern=r"^[\w.:@#-]+$", description="letters of any script, digits and _ . : @ # -")
]
Fraction = Annotated[float, Field(ge=0, le=1)]


REFUSED = "most versions of Flink SQL refuse such a plan; put the operator before what changes rows"
"""What is wrong with operators that count each change of a row as a row of its own."""


class OperatorBase(Spec):
    """Base of all operators. A given service time replaces the costs of the engine profile.

    The traits of a kind. is_source: it reads a broker and has no inputs. is_sink: results arrive here and go no
    further. joins: a result needs records of all of its inputs, which match by their key. thins: some records pass
    unchanged, and others do not. merges: its inputs are partial results. runs_alone: it cannot be chained with others.
    does: what it does, in a few words. costs_like: the kind whose cost per record is charged if a profile does not name
    this kind; if empty, every profile must name it.
    """

    is_source: ClassVar[bool] = False
    is_sink: ClassVar[bool] = False
    joins: ClassVar[bool] = False
    thins: ClassVar[bool] = False
    merges: ClassVar[bool] = False
    runs_alone: ClassVar[bool] = False
    does: ClassVar[str] = ""
    costs_like: ClassVar[str] = "map"

    name: Name
    service_time_s: Annotated[
        float | None, Field(ge=0, le=10**7, description="mean CPU seconds per input record on one reference core")
    ] = None
    service_scv: Annotated[
        float | None, Field(ge=0, le=100, description="squared coefficient of variation of the service time")
    ] = None
    record_bytes: Annotated[
        float | None, Field(ge=1e-3, le=10**9, description="size of an emitted record; absent: by its columns")
    ] = None
    memory_bytes: Annotated[
        float | None, Field(ge=0, le=10**9, description="local memory traffic per input record; absent: by the engine")
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
        """Whether all records of a key belong on one subtask."""
        return False

    @property
    def one_to_one(self) -> bool:
        """Whether each record that comes leaves as one, at once."""
        return False

    @property
    def event_windows(self) -> tuple[EventWindow, ...]:
        """Windows over event time of which it hands over complete ones, or from which its results are made."""
        return ()

    @property
    def needs_event_time(self) -> bool:
        """Whether it keeps state by event time."""
        return bool(self.event_windows)

    @property
    def awaits(self) -> str:
        """What its results wait for beside their records: the `end` of a window, in processing time, or the `watermark`
        that tells it; their `turn`, until the watermark has passed their own times; empty if nothing."""
        return "watermark" if self.event_windows else ""

    @property
    def keeps_rows(self) -> bool:
        """Whether it keeps rows by key, which are in key groups: if their number is not given, Flink's default."""
        return False

    @property
    def hands_over(self) -> str:
        """Kind of output: `records`, `partials` of windows over event time, complete such `windows`, other `results` of
        event time, `changes` of results by key, or results of processing time: `untimed`."""
        return "records"

    @property
    def updates(self) -> bool:
        """Whether its results may change rows that it sent before, or retract them."""
        return False

    @property
    def if_updated(self) -> str:
        """What is wrong if changes of rows come, which it takes for new rows, with the remedy; empty if nothing is."""
        return ""

    @property
    def by_subtask(self) -> bool:
        """Whether its flow depends on its number of subtasks."""
        return False

    @property
    def sends_keys(self) -> bool:
        """Whether its consumer reads the key off its results, by a random number that they carry."""
        return False

    @property
    def memory_s(self) -> float:
        """Seconds for which a record has an effect; 0 if only on arrival, or until a number of others have come."""
        return 0.0

    @property
    def gain(self) -> float:
        """Mean number of records that leave at once for each input record, if no window holds them back."""
        return 1.0

    @property
    def bunches(self) -> bool:
        """Whether records that wait while the operator's own results block it make its next burst of results larger."""
        return False

    @property
    def parts(self) -> int | None:
        """Number of partitions of a source, each of which one subtask reads; None: it has no partitions."""
        return None

    @property
    def part_shares(self) -> np.ndarray | None:
        """Share of a source's records in each partition; None: all have the same. [parts]"""
        return None

    def first_reader(self, parallelism: int) -> int:
        """Number of the source's subtask that reads partition 0; those after it read the next ones."""
        return 0

    @property
    def calls(self) -> Calls | None:
        """Calls to a system outside, one for each record; None if it makes none."""
        return None

    def kept(self, attributes: frozenset[str]) -> frozenset[str]:
        """Attributes of the input that the output has with the same values."""
        return attributes if self.thins else frozenset()

    @property
    def spreads(self) -> bool:
        """Whether its law counts distinct keys by how frequent each is."""
        return False

    @property
    def if_unlike(self) -> str:
        """Effect, in words, that the operator's law misses if keys are unlike or do not come at random; empty if
        none."""
        return ""

    @property
    def unseen(self) -> str:
        """Effect, in words, that the operator's law misses; empty if none."""
        return ""

    @property
    def is_alone(self) -> bool:
        """Whether it cannot be chained with others as it is described."""
        return self.runs_alone

    @property
    def grows_faster(self) -> bool:
        """Whether twice the records make more than twice the results, in a run of the same length."""
        return False

    def state_bytes(self, in_per_s: np.ndarray, horizon_s: float) -> np.ndarray:
        """State of all subtasks at the end of a run of `horizon_s`, in bytes, without windows and
        `state_bytes_per_group`. [N]"""
        return np.zeros_like(in_per_s)

    @property
    def entry_bytes(self) -> float | None:
        """Size of what its windows hold, if that is given; None: by the engine."""
        return None

    def touched(self, producer: str, holds: Holds) -> StateAccess:
        """Accesses to its state for a record of one producer. holds: what its window holds."""
        size: float | None = getattr(self, "state_bytes_per_key", None)
        return StateAccess() if size is None else StateAccess(1.0, 1.0, bytes_each=size)

    @property
    def accumulated(self) -> Columns | None:
        """Columns of the accumulator that it keeps for each key and window, or session; None if it keeps none."""
        return None

    @property
    def piece_s(self) -> float:
        """Length of the partial results over event time that it hands over; 0 if it hands over none."""
        return 0.0

    @property
    def exclusive(self) -> bool:
        """Whether a record goes to one consumer at most."""
        return False

    def share_to(self, consumer: str) -> float:
        """Share of the output that goes to the consumer of that name."""
        return 1.0

    def passed_from(self, side: str) -> float:
        """Share of the records of an input that leave in results: 0 if they only change a state. side: its name, by
        default that of its producer."""
        return 1.0

    def why_not_from(self, sides: Sequence[str]) -> str:
        """Says what is wrong with these inputs, with the remedy; empty if nothing is. sides: their names, by default
        those of their producers."""
        return ""

    def why_not_to(self, consumers: Sequence[str]) -> str:
        """Says what is wrong with these consumers, with the remedy; empty if nothing is."""
        return ""

    def why_not_before(self, consumers: Sequence[OperatorBase]) -> str:
        """Says what is wrong with these operators as consumers, with the remedy; empty if nothing is."""
        return ""

    def why_not_behind(self, producers: Sequence[OperatorBase]) -> str:
        """Says what is wrong with these operators as producers, with the remedy; empty if nothing is."""
        return ""

    @property
    def counted(self) -> int | None:
        """Number of distinct values of the operator's key; None if it is not given."""
        return None

    def values(self, parallelism: int) -> int:
        """Number of distinct values of the operator's key; as many as subtasks if it is not given."""
        return parallelism if self.counted is None else self.counted

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
        """Flow through the operator. inputs: records a second by input stream; bursts: their `bursts_per_s`. [N]
        each"""
        total, together, burst_s = mixing.arriving(inputs, bursts)
        none = np.zeros_like(total)
        return Flow(inputs, total, total, none, none, none, together, burst_s)

    def ages_s(self, arriving: np.ndarray, mixed: np.ndarray, held: HeldRecords) -> np.ndarray:
        """Ages of the results, without service and waits, in seconds. [3, N]

        arriving: ages of the input records, by input [3, K, N]; mixed: their mean [3, N]. Rows are as in
        `twin.rates.latency`.
        """
        return mixed

    def lasts_s(self, in_per_s: np.ndarray) -> np.ndarray:
        """Mean seconds for which records are collected before a result leaves, where only they decide on its end; else
        0. [N]

        in_per_s: records a second that come to the operator.
        """
        return np.zeros_like(in_per_s)

    def selectivity_at(self, rates: OperatorRates) -> float:
        """Selectivity by Costream, Definitions 6 to 8; output per input record for kinds without such a definition."""
        return rates.out_per_s / rates.in_per_s if rates.in_per_s else 0.0

    # mechanism -------------------------------------------------------------------------------------------------------

    @property
    def mechanism(self) -> Mechanism:
        """Description of the work that a subtask does with records."""
        raise NotImplementedError(f"{type(self).__name__} has no mechanism; write one, of twin/kinds/mechanism.py")

    # measured, and varied --------------------------------------------------------------------------------------------

    def measured_as(self, results_per_input: float) -> dict[str, Any]:
        """Fields that make it emit that many records per input record, as measured; empty if no field says it."""
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
        """Says why no result left, with the remedy, though `taken` of the records that `came` were taken in; empty if
        there is no special reason."""
        return ""


def _once(names: tuple[str, ...] | None) -> tuple[str, ...] | None:
    for name in names or ():
        if (names or ()).count(name) > 1:
            raise ValueError(f"attribute {name!r} is named {(names or ()).count(name)} times; name it once")
    return names


class KeyedOperator(OperatorBase):
    """Base of operators that may keep state by key. Records come by key group, and state moves by key group."""

    key_groups: Annotated[
        int | None, Field(ge=1, le=10**6, description="absent: subtasks share the input evenly and nothing can move")
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


# operators that pass records on at once ------------------------------------------------------------------------------


def beside(made: np.ndarray | float) -> np.ndarray:
    """Mean number of other records made together with a record, if one input record makes `made` of them, rounded up or
    down at random: E[b (b - 1)] / E[b]."""
    whole = np.floor(made)
    return np.asarray(whole * (2.0 * made - whole - 1.0) / np.maximum(made, 1e-300))


class Selective(OperatorBase):
    """Base of operators that pass on `selectivity` records for each input record."""

    selectivity: float

    @property
    def one_to_one(self) -> bool:
        """Whether each record leaves as one, at once: its selectivity is 1."""
        return self.selectivity == 1.0

    @property
    def gain(self) -> float:
        """Mean number of records that leave for each input record."""
        return self.selectivity

    def through(self, inputs: tuple[np.ndarray, ...], bursts: Sequence[np.ndarray], mixing: Mixing) -> Flow:
        """Flow through the operator. Bursts stay bursts, unless hardly a record of each is left."""
        total, together, burst_s = mixing.arriving(inputs, bursts)
        none, out = np.zeros_like(total), self.gain * total
        return Flow(inputs, total, out, none, none, none, np.where(together < out, together, np.inf), burst_s)

    @property
    def mechanism(self) -> Selecting:
        """Selecting by the operator's selectivity."""
        return Selecting(self.selectivity, self.thins)

    def measured_as(self, results_per_input: float) -> dict[str, Any]:
        """Selectivity that makes the operator emit that many records per input record."""
        return {"selectivity": results_per_input}

    def why_silent(self, taken: int, came: int) -> str:
        """Says that no result came by chance, if few were expected and the operator kept up."""
        few = taken * self.gain
        if few >= 3.0 or 2 * taken <= came:
            return ""
        return (
            f"{self.name!r} took in {taken} records and passed none on, {few:g} were to be expected; "
            "raise its selectivity or run longer"
        )
