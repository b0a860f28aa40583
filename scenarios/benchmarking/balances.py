"""Which key groups migrate: the load distance that is left. It is computed, as it is by the solvers; nothing runs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from optimizers.balancing.balance import Balance
from optimizers.balancing.registry import SOLVERS
from scenarios.benchmarking.answers import Answer, rows
from scenarios.benchmarking.request import Request
from scenarios.planning.validation import ValidationRow
from scenarios.suite.balances import unbalanced
from scenarios.suite.members import MEMBERS

OVER_BUDGET = 1
"""The kind of an answer that migrates more than it may."""


def judged(family: str, number: int, request: Request) -> Sequence[ValidationRow]:
    """Of the member of that number, from 0, by all solvers. Regret is of what migrations can gain."""
    del request
    balance = unbalanced(MEMBERS[family].seeds[number])
    before = balance.distance(balance.home_g)
    return rows(f"{family}-{number + 1}", "load distance", _answers(balance), worst=before)


def _answers(balance: Balance) -> Iterator[Answer]:
    for name, solver in SOLVERS.items():
        started_s = time.perf_counter()
        found = solver.solve(balance)
        took_s = time.perf_counter() - started_s
        kind = OVER_BUDGET if found.cost > balance.budget * (1 + 1e-9) else 0
        yield Answer(name, "-", found.distance, kind, took_s, found.distance)
    yield Answer("as-given", "-", balance.distance(balance.home_g))
