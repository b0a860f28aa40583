"""BriskStream's Table 3: time per tuple by the distance between an operator and its producer, simulated beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from benchmarks.validity.runs import Job, run_all
from benchmarks.validity.store import Store
from papers.briskstream.published import TABLE_3
from twin.deployment import Deployment
from twin.numa import server_a
from twin.profiles import CACHE_LINE_BYTES, STORM
from twin.scenario import RunSettings
from twin.spec import parse

PAIRS = ("local", "S0-S1", "S0-S3", "S0-S4", "S0-S7")
CONSUMER_SOCKETS = (0, 1, 3, 4, 7)
MEASURED, ESTIMATED = (
    {
        operator: tuple(TABLE_3["A", operator.lower(), socket][f"paper_{kind}_ns"] for socket in CONSUMER_SOCKETS)
        for operator in ("Splitter", "Counter")
    }
    for kind in ("measured", "estimated")
)
"""ns a tuple; Server A; published figures, not measured here."""
LINES = {"Splitter": 3.2, "Counter": 0.5}
"""Cache lines fetched a tuple, which is what the paper's estimates imply; the tuples' sizes are not published."""
LIMIT = 0.05
"""Largest relative deviation from the paper's estimate, which follows the same formula."""
SETTINGS = RunSettings(horizon_s=0.1, warmup_s=0.02, period_s=0.02)
JUMBO_TUPLES = 64
RATE_PER_S = {"Splitter": 1.5e6, "Counter": 4e6}


@dataclass(frozen=True, slots=True)
class Distance:
    """One cell of the table, ns a tuple."""

    operator: str
    sockets: str
    measured: float
    estimated: float
    simulated: float

    def kept(self) -> bool:
        """Whether it is within the limit of the published estimate."""
        return abs(self.simulated / self.estimated - 1) <= LIMIT


def jobs() -> dict[tuple[str, int], Job]:
    """The runs of the table, by operator and column. The operator is saturated."""
    return {
        (operator, index): Job(
            f"table 3 {operator} {PAIRS[index]}", _two_sockets(operator, CONSUMER_SOCKETS[index]), SETTINGS
        )
        for operator in MEASURED
        for index in range(len(PAIRS))
    }


def distances(store: Store, workers: int) -> list[Distance]:
    """The whole table: the time per tuple of a saturated operator is one over its throughput."""
    cells = jobs()
    results = run_all(list(cells.values()), store, workers, "runs on Server A")
    found = {cell: 1e9 / each["throughput_per_s"] for cell, each in zip(cells, results, strict=True)}
    return [
        Distance(operator, PAIRS[index], MEASURED[operator][index], ESTIMATED[operator][index], found[operator, index])
        for operator in MEASURED
        for index in range(len(PAIRS))
    ]


def _two_sockets(operator: str, socket: int) -> Deployment:
    service_s = MEASURED[operator][0] * 1e-9
    cluster = server_a()
    host = cluster.hosts[0].name
    engine = STORM.model_copy(update={"batch_tuples": JUMBO_TUPLES, "flush_s": 0.01, "name": "table-3"})
    operators = [
        {"kind": "source", "name": "source", "service_time_s": 0, "tuple_bytes": LINES[operator] * CACHE_LINE_BYTES},
        {"kind": "map", "name": operator, "service_time_s": service_s, "service_scv": 0},
        {"kind": "sink", "name": "sink", "service_time_s": 0},
    ]
    names = [each["name"] for each in operators]
    return parse(
        Deployment,
        {
            "query": {
                "operators": operators,
                "streams": [{"producer": a, "consumer": b} for a, b in pairwise(names)],
            },
            "cluster": cluster.model_dump(mode="json"),
            "plan": {"placement": {"source": f"{host}/0", operator: f"{host}/{socket}", "sink": f"{host}/{socket}"}},
            "workload": {"arrivals": {"source": {"law": "constant", "rate_per_s": RATE_PER_S[operator]}}},
            "engine": engine.model_dump(mode="json"),
        },
    )


def distance_table(found: Sequence[Distance]) -> list[tuple[str, ...]]:
    """Header and rows."""
    rows: list[tuple[str, ...]] = [
        ("operator", "sockets", "measured (paper)", "estimated (paper)", "simulated", "off the estimate %", "kept")
    ]
    for each in found:
        off = 100 * (each.simulated / each.estimated - 1)
        numbers = [f"{value:.1f}" for value in (each.measured, each.estimated, each.simulated)]
        rows.append((each.operator, each.sockets, *numbers, f"{off:+.1f}", "yes" if each.kept() else "**no**"))
    return rows
