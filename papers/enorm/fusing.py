"""Enorm's fusion: random jobs under all algorithms (Figs. 14 and 15), and how much faster a job is (Fig. 16)."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from optimizers.fusion.components import Fusion, Merging, baseline, by_attributes, by_communication, least_communication
from optimizers.fusion.job import FusionJob, FusionOperator, Transfer
from papers.enorm.simple_job import RECORDS, WORKERS, engine
from papers.interface import CaseTable, Drawer, Experiment, Row, Rows, bars, grid, lines, shape
from papers.running import kept
from papers.workspace import Workspace
from twin.errors import BadInput
from twin.randomness import child_seed, random_stream
from twin.scenario import Scenario
from twin.simulation import simulate
from twin.spec import parse

# random jobs ---------------------------------------------------------------------------------------------------------
# Random jobs of Enorm's Section 7: operators in levels, each with a random subset of 30 partition attributes.
#
# Where the paper leaves something open: the size of the subset walks by -3 to 3 from one operator to the next, between
# 1 and 30; operator i of n is in level i L // n; every operator has 1,000 records a second to send, and what the last
# consumer does not get is not sent; every operator takes and passes all attributes.


ATTRIBUTES = tuple(f"a{number:02d}" for number in range(30))
LARGEST_STEP = 3
RATE_PER_S = 1000.0
FEWEST_LEVELS, MOST_LEVELS = 3, 0.75
"""Least number of levels, and largest as a share of the operators."""
FEWEST_OPERATORS = 4


def random_job(operators: int, seed: int) -> FusionJob:
    """Random job of a size and a seed. Raises BadInput below 4 operators: there would be no three levels."""
    if operators < FEWEST_OPERATORS:
        raise BadInput(f"operators must be >= {FEWEST_OPERATORS}, got {operators}")
    rng = random_stream(seed, f"fusion-job-{operators}")
    names = [f"op{number}" for number in range(operators)]
    keys = list(_keys(operators, rng))
    levels = int(rng.integers(FEWEST_LEVELS, max(FEWEST_LEVELS, int(MOST_LEVELS * operators)) + 1))
    level = [number * levels // operators for number in range(operators)]
    return FusionJob(
        operators=tuple(
            FusionOperator(name=name, kind="map", schema_in=ATTRIBUTES, schema_out=ATTRIBUTES, partition_by=each)
            for name, each in zip(names, keys, strict=True)
        ),
        transfers=tuple(
            Transfer(producer=name, consumer=consumer, rate_per_s=rate)
            for name, place in zip(names, level, strict=True)
            for consumer, rate in _sent(
                [each for each, below in zip(names, level, strict=True) if below == place + 1], rng
            )
        ),
    )


def _keys(operators: int, rng: np.random.Generator) -> Iterator[tuple[str, ...]]:
    size = len(ATTRIBUTES) // 2
    for _ in range(operators):
        yield tuple(ATTRIBUTES[each] for each in sorted(rng.choice(len(ATTRIBUTES), size, replace=False)))
        size = int(np.clip(size + rng.integers(-LARGEST_STEP, LARGEST_STEP + 1), 1, len(ATTRIBUTES)))


def _sent(consumers: list[str], rng: np.random.Generator) -> Iterator[tuple[str, float]]:
    """Yields for each consumer a random share of a random part of what is left."""
    left = RATE_PER_S
    for consumer in consumers:
        rate = float(rng.uniform(0.0, left) * rng.uniform())
        left -= rate
        yield consumer, rate


# Figs. 14 and 15 -----------------------------------------------------------------------------------------------------
# Enorm, Figs. 14 and 15: random jobs, each fused by all algorithms, and the distance from the least communication.


Algorithm = Callable[[FusionJob, np.random.Generator], Fusion]


def by_rate_between(job: FusionJob) -> Fusion:
    """Fusion that merges the two components with the largest rate between them, as long as two fit: many small
    transfers can be more than one large one elsewhere."""
    merging = Merging(job)
    rates: list[dict[int, float]] = [defaultdict(float) for _ in job.operators]
    for edge in merging.edges:
        for one, other in ((edge.producer, edge.consumer), (edge.consumer, edge.producer)):
            rates[one][other] += edge.rate_per_s
    waiting = [(-edge.rate_per_s, edge.producer, edge.consumer) for edge in merging.edges]
    heapq.heapify(waiting)
    while waiting:
        noted, one, other = heapq.heappop(waiting)
        current = rates[one].get(other, 0.0)
        if not current or -noted != current or not merging.fit(one, other):
            continue
        kept, gone = merging.merge(one, other)
        for neighbour, rate in rates[gone].items():
            del rates[neighbour][gone]
            if neighbour != kept:
                rates[kept][neighbour] += rate
                rates[neighbour][kept] = rates[kept][neighbour]
                heapq.heappush(waiting, (-rates[kept][neighbour], kept, neighbour))
        rates[gone].clear()
    return merging.result()


PUBLISHED: Mapping[str, Algorithm] = {
    "COMM": lambda job, _rng: by_communication(job),
    "PA": lambda job, _rng: by_attributes(job),
    "baseline": lambda job, rng: baseline(job, rng),
}
OURS: Mapping[str, Algorithm] = {
    "baseline, unfused only": lambda job, rng: baseline(job, rng, whole=False),
    "COMM between components": lambda job, _rng: by_rate_between(job),
    "COMM without circles": lambda job, _rng: by_communication(job, acyclic=True),
}
"""Algorithms beyond the paper: another reading of the baseline, and two variants of Algorithm 1."""
ALGORITHMS = {**PUBLISHED, **OURS}

OPERATORS = (50, 100, 150)
"""Sizes of the random jobs (Section 7.6)."""
JOBS_A_PIECE = 100
SMALL = (10, 20, 30)
"""Sizes of the jobs that are solved exactly."""
SOLVED_OF = 5
"""Divisor of the number of jobs of each size: so many of them are solved exactly."""
LIMIT_S = 60.0
OPTIMAL = 1e-6
"""Largest gap that counts as none: the tolerance of the solver."""
ABOUT = (
    "Nothing here is measured or simulated: random jobs are fused, and what their transfers' rates say is counted. "
    "What is headed *paper* is published; its figures have no numbers."
)
NOTES = """
- Jobs as in Section 7, random subsets of 30 partition attributes. Open there: subsets grow or shrink by up to 3
  attributes from one operator to the next; what the last consumer does not get of 1,000 records is not sent.
- baseline: what it takes in may already be part of a component, which comes along; or, by its other reading, only
  operators that are still alone count.
- COMM between components: the score is the rate between two components, not between two operators.
- In a circle components send to each other, so that each waits for the timestamps of the others. The paper does not
  speak of it. COMM without circles merges only where no other path leads from one end to the other.
"""


def outcomes(workspace: Workspace, operators: int, score: str) -> dict[str, np.ndarray]:
    """Components, communication and cyclic of jobs of one size under one algorithm, [jobs]; kept in the workspace."""
    jobs = workspace.sizes.n
    pieces = [
        workspace.measured(
            "enorm-fusion", fuse, operators=operators, first=first, jobs=min(JOBS_A_PIECE, jobs - first)
        )[score]
        for first in range(0, jobs, JOBS_A_PIECE)
    ]
    return {key: np.concatenate([piece[key] for piece in pieces]) for key in pieces[0]}


def fuse(operators: int, first: int, jobs: int, seed: int) -> dict[str, dict[str, list[float]]]:
    """Outcomes of the jobs `first`, `first` + 1, ... of a seed, under every algorithm."""
    keys = ("components", "communication", "cyclic")
    found: dict[str, dict[str, list[float]]] = {name: {key: [] for key in keys} for name in ALGORITHMS}
    for index in range(first, first + jobs):
        job = random_job(operators, child_seed(seed, index))
        for name, algorithm in ALGORITHMS.items():
            fusion = algorithm(job, random_stream(child_seed(seed, index), "fusion-baseline"))
            found[name]["components"].append(float(len(fusion.components)))
            found[name]["communication"].append(fusion.communication)
            found[name]["cyclic"].append(float(fusion.cyclic))
    return found


def mean_of(key: str, workspace: Workspace, operators: int, score: str) -> Row:
    """Row of the mean and its standard error over the jobs."""
    found = outcomes(workspace, operators, score)
    values = found[key]
    return {
        "mean": float(values.mean()),
        "standard_error": float(values.std(ddof=1) / np.sqrt(values.size)) if values.size > 1 else None,
        "cyclic": float(found["cyclic"].mean()),
    }


def gaps(workspace: Workspace, operators: int) -> Iterator[Row]:
    """Rows by algorithm of the gap to the least communication; none if no job was solved."""
    jobs = max(1, workspace.sizes.n // SOLVED_OF)
    cases = grid(operators=(operators,), job=range(jobs))
    proved = [found for found in kept(workspace, "enorm-exact", solve, cases) if found["proved"]]
    for score in ALGORITHMS if proved else ():
        mine, least = (np.array([found[key] for found in proved]) for key in (score, "least"))
        yield {
            "score": score,
            "mean": float(mine.mean()),
            "least": float(least.mean()),
            "gap": float((mine - least).mean()),
            "worst": float((mine - least).max()),
            "optimal": float((mine - least <= OPTIMAL).mean()),
            "solved": f"{len(proved)} of {jobs}",
        }


def solve(operators: int, job: int, seed: int) -> dict[str, Any]:
    """Communication of job number `job` of a seed, exactly and by each algorithm."""
    job_seed = child_seed(seed, job)
    question = random_job(operators, job_seed)
    exact = least_communication(question, seconds=LIMIT_S)
    found = {
        name: algorithm(question, random_stream(job_seed, "fusion-baseline")).communication
        for name, algorithm in ALGORITHMS.items()
    }
    return {"proved": exact.proved, "least": exact.fusion.communication, **found}


def means(quantity: str, key: str, title: str, best: Callable[..., float], comm: str, others: str) -> CaseTable:
    """Table of all algorithms on the same jobs. comm, others: what the paper says of COMM, which has the best, and of
    the other two."""
    return CaseTable(
        title=lambda workspace: f"{title}, {workspace.sizes.n} random jobs a size",
        columns=f"""
            operators | score | mean: {quantity} | standard_error: standard error | paper | cyclic: share with circles
        """,
        cases=grid(operators=OPERATORS, score=ALGORITHMS),
        measure=partial(mean_of, key),
        published={"COMM": comm, "PA": others, "baseline": others},
        by=("score",),
        shapes=partial(shapes, comm, best),
    )


def shapes(comm: str, best: Callable[..., float], rows: Rows) -> Rows:
    """Compares COMM with the paper's other two at each size, and with the other reading of the baseline."""
    by = {(row["operators"], row["score"]): row["mean"] for row in rows}
    found = []
    for other in ("PA", "baseline", "baseline, unfused only"):
        pairs = [(by[size, "COMM"], by[size, other]) for size in OPERATORS]
        texts = "; ".join(f"{one:.3g} for {two:.3g}" for one, two in pairs)
        same = all(one != two and one == best(one, two) for one, two in pairs)
        why = "" if other in PUBLISHED else "the baseline's other reading"
        found.append(shape(f"COMM beside {other}", comm, texts, same, why))
    return found


def drawn(quantity: str) -> Drawer:
    """Drawer of the paper's three algorithms and the fourth that the twin would use."""
    shown = (*PUBLISHED, "COMM without circles")
    return bars(quantity, group="{operators} operators", series="score", value="mean", only={"score": shown})


EXACT_NOTE = f"""
- The least possible is by integer programming, up to {LIMIT_S:g} s a job; jobs that take longer are left out. Like
  Algorithm 1 it allows circles, so that COMM without circles cannot reach it.
"""
FIG14 = Experiment(
    name="enorm.fig14",
    source="Enorm, Fig. 14, Section 7.6",
    summary="components after automatic fusion of random jobs, by score",
    tables={
        "components": means(
            "components",
            "components",
            "Components after fusion",
            max,
            "the most",
            "fewer than COMM",
        )
    },
    figures={"components": drawn("components, mean")},
    notes=NOTES,
    about=ABOUT,
)
FIG15 = Experiment(
    name="enorm.fig15",
    source="Enorm, Fig. 15, Section 7.6",
    summary="communication between components after automatic fusion of random jobs, by score, and the least possible",
    tables={
        "communication": means(
            "communication",
            "communication",
            "Share of all transfers between components",
            min,
            "the least",
            "more than COMM",
        ),
        "gaps": CaseTable(
            title="How far from the least possible, on jobs small enough for an exact solution",
            columns="""
                operators | score | mean: communication | least: least possible | gap | worst: largest gap |
                optimal: share without gap | solved: jobs solved
            """,
            cases=grid(operators=SMALL),
            measure=gaps,
        ),
    },
    figures={"communication": drawn("share between components")},
    notes=NOTES + EXACT_NOTE,
    about=ABOUT,
)


# the fast job: Fig. 16 -----------------------------------------------------------------------------------------------
# Duration with none, two, three and all four of its operators fused.


STAGES = ("first", "second", "third", "fourth")
FUSED = (0, 2, 3, 4)
HAND_OVER_S, RECORD_BYTES = 150e-6, 100.0
"""Time to serialise a record and deserialise it, together."""
RECEIVE_S = 25e-6
LOGICS_S = (10e-6, 100e-6, 1e-3)
"""Service times of a record's logic in each operator: as cheap as the paper's aggregation, and dearer."""
TENTHS = 10
"""Divisor of cores and records: workers have a tenth of a core."""
OFFERED_PER_S, HORIZON_S = 6000.0, 15.0


def times(workspace: Workspace, logic_s: float, fused: int) -> Row:
    """Row of the time of 18 million records, and its ratio to the time with nothing fused."""
    rate, none = (workspace.measured("enorm-fig16", measured, logic_s=logic_s, fused=count) for count in (fused, 0))
    return {
        "logic": 1e6 * logic_s,
        "time_s": RECORDS / rate,
        "law_s": RECORDS * record_s(logic_s, fused) / WORKERS,
        "faster": rate / none,
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


def duration_shapes(rows: Rows) -> Rows:
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
            shapes=duration_shapes,
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
