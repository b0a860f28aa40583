"""The highest rows of each key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from twin.columns import Columns
from twin.kinds.by_key import Changelog, KeepsRecords, Ttl, lasting_s, most_of, poisson_tail
from twin.kinds.flow import Flow, Mixing
from twin.kinds.mechanism import Ranking
from twin.kinds.operator import Fraction

MOMENTS = 64
"""Number of times of a run at which the number of changes is looked at."""


class TopN(KeepsRecords):
    """Keeps the `n` highest rows of each key, and sends what changes among them: Flink's Rank with rows that are only
    inserted (ROW_NUMBER() OVER (PARTITION BY ... ORDER BY ...) <= n). A record that enters sends an insertion, and a
    deletion of the row that leaves; with `row_number`, a change of its rank and each one below. The order of rows is
    random."""

    does: ClassVar[str] = "keeps the n highest rows of each key, and sends changes of them"
    costs_like: ClassVar[str] = "aggregate"

    kind: Literal["top-n"] = "top-n"
    n: Annotated[int, Field(ge=1, le=10**5, description="rows of a key that are kept")]
    row_number: Annotated[bool, Field(description="whether results have the number of their rank")] = False
    changelog: Changelog = "retract"
    enters: Annotated[
        Fraction | None,
        Field(description="share of the records that enter a full list, at any rank; absent: those of higher values"),
    ] = None
    ttl_s: Ttl = None

    # traits ----------------------------------------------------------------------------------------------------------

    @property
    def retracts(self) -> bool:
        """Whether a change of a rank sends the row before."""
        return self.changelog == "retract"

    @property
    def updates(self) -> bool:
        """Always true: rows leave the list."""
        return True

    @property
    def if_updated(self) -> str:
        """Changes of listed rows are ranked as new ones, unless it is said how many change the list."""
        if self.enters is not None:
            return ""
        return (
            "its rows get random values as new ones do, so that far too few change the list; give enters, the share of "
            "the changes that are of a listed row (and changelog: upsert to what sends them)"
        )

    @property
    def if_unlike(self) -> str:
        """Effect of unlike keys that the law misses, in words."""
        return f"that lists of frequent keys of {self.name} change less often, and those of rare ones are not full"

    @property
    def unseen(self) -> str:
        """What the law misses of rows that expire, in words."""
        return "" if self.ttl_s is None else f"that rows of {self.name} expire one by one, so that others enter"

    # law -------------------------------------------------------------------------------------------------------------

    def columns_out(self, inputs: Sequence[Columns]) -> Columns:
        """Columns of the input, and the number of the rank if results have it."""
        return super().columns_out(inputs) + Columns(ints=int(self.row_number))

    def through(self, inputs: tuple[np.ndarray, ...], bursts: Sequence[np.ndarray], mixing: Mixing) -> Flow:
        """Flow through the operator, as a mean over the run, and the rows at its end."""
        total, run_s = np.asarray(np.sum(inputs, axis=0), dtype=float), lasting_s(mixing)
        grows_s = run_s if self.ttl_s is None else min(self.ttl_s, run_s)
        each = total / self.keys
        nodes, weights = np.polynomial.legendre.leggauss(MOMENTS)
        nodes, weights = (1.0 + nodes) / 2.0, weights / 2.0
        means = np.multiply.outer(np.minimum(run_s * nodes**3, grows_s), each)  # more often early in the run
        changes = self._changes(means.reshape(-1)).reshape(means.shape)
        sent = np.zeros_like(total)
        for node, weight, changed in zip(nodes, weights, changes, strict=True):
            sent = sent + weight * 3.0 * node**2 * changed
        rows = self.keys * most_of(self.n, each * grows_s)
        return self.passed_on(inputs, bursts, mixing, total * sent, rows)

    def _changes(self, mean: np.ndarray) -> np.ndarray:
        """Expected results of a record before which a Poisson number of that mean have come. [N]

        With i before it, it enters if i < n, else with the probability n / (i + 1); its rank is any of those there are
        then.
        """
        n, mean = self.n, np.maximum(mean, 1e-12)
        full = poisson_tail(n, mean)
        enters = n / mean * poisson_tail(n + 1, mean) if self.enters is None else self.enters * full
        if not self.row_number:
            return np.asarray(1.0 - full + 2.0 * enters)
        below = mean * (1.0 - poisson_tail(n - 1, mean)) / 2.0 if n > 1 else 0.0
        return np.asarray(1.0 - full + (1.0 + self.retracts) * (below + (n + 1.0) / 2.0 * enters))

    # mechanism -------------------------------------------------------------------------------------------------------

    @property
    def mechanism(self) -> Ranking:
        """Ranking by random values."""
        return Ranking(self.n, self.row_number, self.retracts, self.enters, self.ttl_s, self.row_bytes)
