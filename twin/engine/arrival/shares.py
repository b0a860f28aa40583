"""Which share of a source's tuples each of its replicas reads."""

from __future__ import annotations

from collections.abc import Sequence

from twin.arrivals.law import ArrivalLaw
from twin.arrivals.replay import Replay
from twin.errors import BadInput
from twin.partitions import counts, even
from twin.query import AnyOperator


def read_shares(source: AnyOperator, replicas: int, law: ArrivalLaw) -> Sequence[float | None]:
    """By replica, without those that read nothing; None: an equal share of all.

    Raises BadInput for single recorded tuples, which are dealt in turn, where shares are uneven.
    """
    if source.parts is None:
        return [None] * replicas
    each = [count for count in counts(source.parts, replicas) if count]
    if even(source.parts, len(each)):
        return [None] * len(each)
    if isinstance(law, Replay) and law.recording.rates_per_s is None:
        raise BadInput(
            f"source {source.name!r}: single recorded tuples are dealt to replicas in turn, which {source.parts} "
            f"partitions on {replicas} replicas do not allow; use a number of replicas that divides {source.parts}"
        )
    return [count / source.parts for count in each]
