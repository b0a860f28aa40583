"""Aggregation without windows: one result for each key, which every record changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from twin.kinds.flow import Columns, DataType, Flow, HeldRecords, KeySpread, Mixing, poisson_mean
from twin.kinds.mechanism import Aggregating
from twin.kinds.operator import OperatorBase
from twin.kinds.rows import ByKey, Changelog, Ttl, first_share, lasting_s, seen_keys


class GroupAggregate(ByKey):
    """Changes the result of a key with each record, and sends the change: Flink's GroupAggregate (GROUP BY without a
    window), which sends nothing where the result stays the same (`changing`). In mini-batches (`mini_batch_s`) each key
    that has records changes once a batch. In two phases, the first (`local`) sends one partial result for each key and
    batch to the second (`global`), which keeps the results."""

    does: ClassVar[str] = "keeps a result for each key, and sends each change of it"
    costs_like: ClassVar[str] = "aggregate"

    kind: Literal["group-aggregate"] = "group-aggregate"
    phase: Annotated[
        Literal["local", "global"] | None,
        Field(description="of two phases, the one that this operator is; absent: it is both"),
    ] = None
    mini_batch_s: Annotated[
        float | None,
        Field(ge=1e-3, le=10**6, description="length of a batch (table.exec.mini-batch.allow-latency); absent: none"),
    ] = None
    mini_batch_size: Annotated[
        int | None, Field(ge=1, le=10**9, description="records of a subtask that end a batch; absent: any number")
    ] = None
    changing: Annotated[
        float,
        Field(
            ge=0,
            le=1,
            exclude_if=lambda share: share == 1.0,
            description="share of the records of a key with a result that change it; the others send nothing, as most "
            "below a MAX do",
        ),
    ] = 1.0
    changelog: Changelog = "retract"
    ttl_s: Ttl = None
    state_bytes_per_key: Annotated[float, Field(ge=0, le=10**9, description="of the accumulators of one key")] = 100.0
    key_type: DataType = "int"

    @model_validator(mode="after")
    def _check_batches(self) -> Self:
        if self.mini_batch_s is None and (self.phase is not None or self.mini_batch_size is not None):
            what = "mini_batch_size" if self.phase is None else f"the phase {self.phase}"
            raise ValueError(f"{self.name!r} has {what} without mini_batch_s, the length of a batch; give it")
        if self.mini_batch_s is not None and self.changing < 1.0:
            raise ValueError(
                f"{self.name!r} has changing ({self.changing:g}) and mini_batch_s, by which all records of a batch "
                "change a result together; leave one out"
            )
        return self

    # traits ----------------------------------------------------------------------------------------------------------

    @property
    def is_alone(self) -> bool:
        """Whether results leave when a batch ends, which nobody in its task waits for."""
        return self.mini_batch_s is not None

    @property
    def is_local(self) -> bool:
        """Whether it is the first of two phases."""
        return self.phase == "local"

    @property
    def keeps_rows(self) -> bool:
        """Whether it keeps rows by key."""
        return not self.is_local

    @property
    def keyed(self) -> bool:
        """Whether all records of a key come to one subtask: not in the first of two phases."""
        return not self.is_local

    @property
    def spreads(self) -> bool:
        """Always true: changes are counted by how frequent keys are."""
        return True

    @property
    def by_subtask(self) -> bool:
        """Whether its flow depends on the number of subtasks: each has batches of its own."""
        return self.mini_batch_s is not None

    @property
    def sends_keys(self) -> bool:
        """Whether its consumer reads the key off its results."""
        return self.is_local

    @property
    def retracts(self) -> bool:
        """Whether a change sends the result before."""
        return self.changelog == "retract"

    @property
    def updates(self) -> bool:
        """Whether it sends results, and not what the second phase makes them of."""
        return not self.is_local

    @property
    def if_updated(self) -> str:
        """Nothing: the row before and the row after a change each change a result."""
        return ""

    @property
    def if_unlike(self) -> str:
        """Effect of unlike keys that the law misses, in words."""
        if self.is_local:  # its keys are those of the second phase
            return ""
        return f"that changes of rare keys of {self.name} are younger, and that it keeps fewer of their results"

    @property
    def unseen(self) -> str:
        """What the law of two phases misses, in words."""
        if not self.is_local or self.mini_batch_size is None:
            return ""
        return f"that what {self.name} sends of a full batch waits in the second phase until the time is over"

    def why_not_before(self, consumers: Sequence[OperatorBase]) -> str:
        """Says that the second phase is not the only consumer of the first; empty if it is."""
        if not self.is_local:
            return ""
        if len(consumers) != 1 or getattr(consumers[0], "phase", None) != "global":
            return "is the first of two phases, and sends to one group-aggregate with phase: global; put that behind it"
        other = consumers[0]
        if getattr(other, "keys", None) != self.keys:
            return f"has {self.keys} keys and {other.name!r} {getattr(other, 'keys', None)}; give both phases the same"
        return ""

    def why_not_behind(self, producers: Sequence[OperatorBase]) -> str:
        """Says that a second phase has other inputs than first phases; empty if it has none."""
        if self.phase == "global" and not all(getattr(each, "phase", None) == "local" for each in producers):
            return "is the second of two phases, and takes partial results of group-aggregates with phase: local only"
        return ""

    # law -------------------------------------------------------------------------------------------------------------

    def columns_out(self, inputs: Sequence[Columns]) -> Columns:
        """Columns of the key and the value."""
        return Columns.one(self.key_type) + Columns(doubles=1)

    def through(self, inputs: tuple[np.ndarray, ...], bursts: Sequence[np.ndarray], mixing: Mixing) -> Flow:
        """Flow through the operator, as a mean over the run."""
        total, run_s = np.asarray(np.sum(inputs, axis=0), dtype=float), lasting_s(mixing)
        if self.mini_batch_s is None:
            first = self._firsts(total, run_s, mixing)
            changes = first + (total - first) * self.changing * (1.0 + self.retracts)
            return self.passed_on(inputs, bursts, mixing, changes)
        changes, content, records = self._batches(total, mixing)
        out = changes
        if not self.is_local:
            first = np.minimum(self._firsts(records, run_s, mixing), changes)
            out = changes * (1.0 + self.retracts) - first * self.retracts
        flow = self.passed_on(inputs, bursts, mixing, out, content)
        batches = np.divide(total, content, out=np.zeros_like(total), where=content > 0)
        keys = np.divide(changes, batches, out=np.zeros_like(total), where=batches > 0)
        return flow._replace(
            fires_per_s=batches, groups_per_fire=keys, bursts_per_s=np.where(total > 0, batches, np.inf)
        )

    def _spread(self, mixing: Mixing) -> KeySpread:
        """Frequencies of keys. Records of a key come to all subtasks of a first phase, else to one."""
        alike = KeySpread(np.ones(1), np.array([float(self.keys)]), np.inf if self.is_local else 1.0)
        return alike if mixing.spread is None else mixing.spread

    def _firsts(self, records: np.ndarray, run_s: float, mixing: Mixing) -> np.ndarray:
        """Records a second that find no result of their key, of so many that come. [N]"""
        parts = zip(*self._spread(mixing)[:2], strict=True)
        each = [share * records * first_share(share * records, keys, run_s, self.ttl_s) for share, keys in parts]
        return np.asarray(np.sum(each, axis=0))

    def _batches(self, total: np.ndarray, mixing: Mixing) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Keys that change a second; records in the batches of all subtasks; and records a second before any phase. [N]

        A key has a Poisson number of records in a batch, so it changes with the probability 1 - exp(-mean). Of the
        batches of the first phase that come together, each has one of the key with the probability that the rate of
        partial results says, independently.
        """
        assert self.mini_batch_s is not None
        parallelism, spread = np.asarray(mixing.parallelism, dtype=float), self._spread(mixing)
        content, records = total / parallelism * self.mini_batch_s, total
        if self.phase == "global":
            sets = np.maximum(sum(mixing.sets_per_s, start=np.zeros_like(total)), 1.0 / self.mini_batch_s)
            records = spread.content(total / sets) * sets
        changed = spread.distinct(records * self.mini_batch_s, parallelism)
        if self.mini_batch_size is None:
            return changed / self.mini_batch_s, content * parallelism, records

        def distinct(came: np.ndarray) -> np.ndarray:
            return spread.distinct(came, parallelism, exactly=True)

        limited, cut = _cut(content, distinct, self.mini_batch_size)
        changed = np.where(cut < content * (1.0 - 1e-6), limited * parallelism, changed)
        return changed / self.mini_batch_s, cut * parallelism, records

    def ages_s(self, arriving: np.ndarray, mixed: np.ndarray, held: HeldRecords) -> np.ndarray:
        """Ages of the results: at the end of a batch, that of its oldest record of the key, one of a Poisson number, at
        least one. Partial results come at the end of a batch, and the oldest of those of a key counts. [3, N]"""
        if self.mini_batch_s is None:
            return mixed
        batch_s = held.window_records / np.maximum(held.in_per_s, 1e-12)
        if self.phase != "global":
            oldest_s = batch_s * _oldest(poisson_mean(held.window_records / np.maximum(held.groups, 1e-12)))
            return np.asarray(mixed + np.stack(np.broadcast_arrays(oldest_s, oldest_s, batch_s)))
        mean = -np.log1p(-np.clip(held.groups / self.keys, 1e-12, 1.0 - 1e-12))
        each = poisson_mean(self.keys * mean / np.maximum(held.window_records, 1e-12))
        older_s = batch_s * np.maximum(_oldest(mean) - _oldest(each), 0.0)
        return np.asarray(mixed + np.stack(np.broadcast_arrays(older_s, older_s, np.zeros_like(older_s))))

    def state_bytes(self, in_per_s: np.ndarray, horizon_s: float) -> np.ndarray:
        """Accumulators of all subtasks at the end of a run, in bytes. [N]"""
        if self.is_local:
            return np.zeros_like(in_per_s)
        return seen_keys(in_per_s, self.keys, horizon_s, self.ttl_s) * self.state_bytes_per_key

    # mechanism -------------------------------------------------------------------------------------------------------

    @property
    def mechanism(self) -> Aggregating:
        """Aggregating by the operator's phase and batches."""
        return Aggregating(
            self.phase,
            self.mini_batch_s,
            self.mini_batch_size,
            self.changing,
            self.retracts,
            self.ttl_s,
            self.state_bytes_per_key,
        )

    # advice ----------------------------------------------------------------------------------------------------------

    def why_silent(self, taken: int, came: int) -> str:
        """Says that no batch was over."""
        if self.mini_batch_s is None:
            return ""
        return (
            f"{self.name!r} took in {taken} records, and no batch of {self.mini_batch_s:g} s was over; shorten its "
            "mini_batch_s or run longer"
        )


def _oldest(mean: np.ndarray) -> np.ndarray:
    """Mean age of the oldest of a Poisson number of records, at least one, at the end of a batch, in batches. [N]"""
    return np.asarray(-1.0 / np.expm1(-mean) - 1.0 / mean)


def _cut(content: np.ndarray, distinct: Callable[[np.ndarray], np.ndarray], size: int) -> tuple[np.ndarray, np.ndarray]:
    """Keys of a subtask that change in the time of a batch, if each so many records end one, and the number of records
    in the batch of a record. [N] each

    The number of records is Poisson, of the mean `content`, and taken as normal. distinct: expected keys of so many
    records.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(32)
    changed, squares, of_full = np.zeros_like(content), np.zeros_like(content), distinct(np.full_like(content, size))
    for node, weight in zip(nodes, weights / weights.sum(), strict=True):
        came = np.maximum(content + np.sqrt(content) * node, 0.0)
        full = np.floor(came / size)
        rest = came - full * size
        changed = changed + weight * (full * of_full + distinct(rest))
        squares = squares + weight * np.where(full > 0, full * size**2 + rest**2, content * rest)
    return changed, squares / np.maximum(content, 1e-12)
