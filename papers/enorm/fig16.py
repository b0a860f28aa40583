"""Enorm, Fig. 16: duration of the fast job with none, two, three and all four of its operators fused."""

from __future__ import annotations

from itertools import pairwise

from papers.drawing import lines
from papers.enorm.simple_job import engine
from papers.interface import CaseTable, Experiment, Row, Rows, grid, shape
from papers.workspace import Workspace
from twin.scenario import Scenario
from twin.simulation import simulate
from twin.spec import parse

STAGES = ("first", "second", "third", "fourth")
FUSED = (0, 2, 3, 4)
WORKERS = 6
HAND_OVER_S, RECORD_BYTES = 150e-6, 100.0
"""Time to serialise a record and deserialise it, together."""
RECEIVE_S = 25e-6
LOGICS_S = (10e-6, 100e-6, 1e-3)
"""Service times of a record's logic in each operator: as cheap as the paper's aggregation, and dearer."""
TENTHS = 10
"""Divisor of cores and records: workers have a tenth of a core."""
OFFERED_PER_S, HORIZON_S = 6000.0, 15.0
RECORDS = 18e6


def times(workspace: Workspace, logic_s: float, fused: int) -> Row:
    """Row of the time of 18 million records, and its ratio to the time with nothing fused."""
    rate, none = (workspace.measured("enorm-fig16", measured, logic_s=logic_s, fused=count) for count in (fused, 0))
    return {
        "logic": 1e6 * logic_s,
        "time_s": RECORDS / rate,
        "law_s": RECORDS * record_s(logic_s, fused) / WORKERS,
        "faster": RECORDS / none * rate / RECORDS,
    }


def record_s(logic_s: float, count: int) -> float:
    """CPU time of a record at all workers: half a hand-over from the source, and those between unfused operators."""
    away, between = 1.0 - 1.0 / WORKERS, len(STAGES) - max(1, count)
    return RECEIVE_S + HAND_OVER_S / 2.0 + len(STAGES) * logic_s + between * away * HAND_OVER_S


def measured(logic_s: float, fused: int, seed: int) -> float:
    """Rate of records that leave the last operator, after a third of the run [1/s]."""
    found = simulate(fast_job(logic_s, fused, seed))
    return TENTHS * next(each.rate_out_per_s for each in found.operators if each.operator == STAGES[-1])


def fast_job(logic_s: float, fused: int, seed: int) -> Scenario:
    """Scenario of the fast job: four operators in a row, of which the first `fused` are fused."""
    workers = [f"worker-{number}" for number in range(WORKERS)]
    host = {"ram_mb": 1_000_000, "bandwidth_mbps": 10_000, "latency_ms": 0.5}
    stages = [
        {"kind": "map", "name": name, "service_time_s": logic_s + (RECEIVE_S if name == STAGES[0] else 0.0)}
        for name in STAGES
    ]
    names = ["source", *STAGES, "sink"]
    half_ns = HAND_OVER_S / 2.0 / RECORD_BYTES * 1e9
    document = {
        "name": "fast job",
        "query": {
            "operators": [
                {"kind": "source", "name": "source", "service_time_s": 0, "record_bytes": RECORD_BYTES},
                *({**stage, "record_bytes": RECORD_BYTES} for stage in stages[:-1]),
                {**stages[-1], "record_bytes": 1e-3},
                {"kind": "sink", "name": "sink", "service_time_s": 0},
            ],
            "streams": [
                {"producer": a, "consumer": b, "partitioning": "rebalance" if b in STAGES[1:fused] else "hash"}
                for a, b in pairwise(names)
            ],
        },
        "cluster": {
            "hosts": [
                *({"name": name, "cpu_percent": 100 / TENTHS, **host} for name in workers),
                {"name": "ends", "cpu_percent": 6400, **host},
            ]
        },
        "plan": {
            "placement": {"source": ["ends"] * 16, **dict.fromkeys(STAGES, workers), "sink": "ends"},
            "fused": [STAGES[:fused]] if fused else [],
        },
        "workload": {"arrivals": {"source": {"law": "poisson", "rate_per_s": OFFERED_PER_S}}},
        "engine": {
            **engine(),
            "channel_records": 64,
            "serialise_ns_per_byte": half_ns,
            "deserialise_ns_per_byte": half_ns,
        },
        "run": {"horizon_s": HORIZON_S, "warmup_s": HORIZON_S / 3, "seed": seed},
    }
    return parse(Scenario, document)


def shapes(rows: Rows) -> Rows:
    """Compares all fused with none, by the cost of the logic."""
    faster = [row["faster"] for row in rows if row["fused"] == len(STAGES)]
    falls = all(one > other for one, other in pairwise(faster))
    return [
        shape("all fused, cheap logic", "more than three times as fast", f"{faster[0]:.3g} times", faster[0] > 3.0,
              "the hand-over's cost, which the paper does not give, is chosen for it"),
        shape("the dearer the logic", "the less fusing brings", f"{faster[0]:.3g} to {faster[-1]:.3g} times", falls),
    ]  # fmt: skip


FIG16 = Experiment(
    name="enorm.fig16",
    source="Enorm, Fig. 16, Section 7.7",
    summary="the fast job with none to all of its operators fused, simulated",
    tables={
        "times": CaseTable(
            title="The overloaded fast job on six workers of one core",
            columns="""
                logic: logic of an operator (us) | fused: operators fused | time_s: seconds for 18 million records |
                law_s: by what a record costs (s) | faster: times as fast as with none | paper
            """,
            cases=grid(logic_s=LOGICS_S, fused=FUSED),
            measure=times,
            shapes=shapes,
            published={(LOGICS_S[0], len(STAGES)): "more than three times"},
            by=("logic_s", "fused"),
        )
    },
    figures={"times": lines("operators fused", "times as fast", x="fused", y="faster", series="logic of {logic:g} us")},
    notes=f"""
- A hand-over between workers takes {1000000.0 * HAND_OVER_S:g} us, half at either end; one record in six stays on its
  worker. Whatever it takes, time falls in a straight line with each hand-over less.
- Workers of a tenth of a core.
- The operators are maps: what aggregates and sends each record along at once costs what is given here.
""",
)
