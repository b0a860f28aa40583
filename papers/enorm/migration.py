"""Enorm's migrations: pauses (Figs. 10 and 11), what they cost (12), and latency under a moving hot spot (13)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from papers.enorm.simple_job import COMPUTE, FEWER, GROUPS, PANE_S, WORKERS, large, notes, simple_job, worker_cpu_s
from papers.interface import CaseTable, Experiment, Row, Rows, grid, lines, shape, span, within
from papers.workspace import Workspace
from twin.histograms import histogram_of, quantile_s
from twin.run import Run
from twin.simulation import simulate

# pauses: Figs. 10 and 11 ---------------------------------------------------------------------------------------------
# Pause of a key group, and times of splitting and combining, by size of state.


STATE_BYTES = (100.0, 300.0, 1_000.0, 3_000.0)
"""State of a key [bytes]; a key group has some 20,000 keys by then."""
PANE_KEYS = 1_200_000
LOADED_PER_S = 28_000.0
"""Rate that is 70 % of what the job can take."""
AT_S = 294.0
"""Time of the operation: after four minutes of warming up, near the end of a pane."""
OPERATED_S = 780.0
"""Length of a run, until the operation that takes longest is over."""
MINUTES = (5, 10)
OPERATIONS = ("split", "combine, disruptive", "combine, smooth")
NEGLIGIBLE = 0.01
"""Ratio to the shortest disruptive pause below which a pause is negligible: the paper's figures have no numbers."""


NOTES = f"""{notes()}
- State grows by the bytes of a key; what moves is the open minute of a key group, or, combining, what consolidates
  hold of all key groups that are elsewhere. A pause: from taking the state out to installing it; records wait from the
  redirection on.
"""


def pauses(workspace: Workspace, key_bytes: float) -> Row:
    """Row of the pauses of one key group, by both strategies."""
    disruptive, instant = (
        workspace.measured("enorm-fig10", moved, strategy=strategy, key_bytes=key_bytes)
        for strategy in ("disruptive", "instant")
    )
    return {
        "state_mb": disruptive["bytes"] / 1e6,
        "disruptive": disruptive["paused_s"],
        "held": disruptive["held_s"],
        "instant": instant["paused_s"],
        "left_mb": instant["left_bytes"] / 1e6,
    }


def pause_shapes(rows: Rows) -> Rows:
    """Compares pauses (Fig. 10). rows: by size of state."""
    disruptive, instant = ([row[way] for row in rows] for way in ("disruptive", "instant"))
    return [
        shape("disruptive: pause", "grows with the state", f"{span(disruptive)} s", grows(disruptive)),
        shape("instant: pause", "negligible", f"{span(instant)} s", max(instant) < NEGLIGIBLE * min(disruptive)),
    ]


def grows(values: Sequence[float]) -> bool:
    """Whether each value is larger than the one before."""
    return all(one < other for one, other in pairwise(values))


def moved(strategy: str, key_bytes: float, seed: int) -> dict[str, float]:
    """Numbers of one migration."""
    move = {"kind": "migration", "operator": COMPUTE, "at_s": AT_S, "key_groups": [0], "to_subtask": 3}
    job = simple_job(
        pane_keys=PANE_KEYS,
        rate_per_s=LOADED_PER_S,
        horizon_s=420.0,
        events=[{**move, "strategy": strategy}],
        key_bytes=key_bytes,
        seed=seed,
    )
    return _numbers(next(row for row in simulate(job).event_rows if row["kind"] == "migration"))


def _numbers(row: Mapping[str, Any]) -> dict[str, float]:
    detail = row["detail"]
    return {
        "paused_s": row["paused_s"] or 0.0,
        "bytes": row["bytes"] or 0.0,
        "completed_s": row["end_s"] - row["at_s"],
        **{name: float(detail.get(name, 0.0)) for name in ("held_s", "left_bytes")},
        "copies": FEWER * float(detail.get("copies", 0.0)),
    }


def operations(workspace: Workspace, key_bytes: float, what: str) -> Row:
    """Row of splitting, or of combining in one of both ways."""
    found = workspace.measured("enorm-fig11", operated, what=what, key_bytes=key_bytes)
    return {
        "state_mb": key_bytes * PANE_KEYS / 60 / 1e6,
        "paused": found["paused_s"],
        "completed": found["completed_s"],
        "copies": found["copies"],
    }


def operation_shapes(rows: Rows) -> Rows:
    """Compares operations (Fig. 11). rows: by size of state."""

    def of(what: str) -> tuple[list[float], list[float], str]:
        paused, completed = ([row[key] for row in rows if row["what"] == what] for key in ("paused", "completed"))
        return paused, completed, f"pauses {span(paused, '.3g')} s, done after {span(completed, '.3g')} s"

    split, disruptive, smooth = (of(what) for what in OPERATIONS)
    least = NEGLIGIBLE * min(disruptive[0])
    return [
        shape("split", "very fast, negligible latency", split[2],
              max(split[0]) < least and max(split[1]) < PANE_S, "fast: before a partial result is due"),
        shape("combine, disruptive", "latency relative to the state", disruptive[2], grows(disruptive[0])),
        shape("combine, smooth", f"no latency, at most the longest window, {60 * max(MINUTES)} s", smooth[2],
              max(smooth[0]) < least and max(split[1]) < max(smooth[1]) <= 60.0 * max(MINUTES)),
    ]  # fmt: skip


def operated(what: str, key_bytes: float, seed: int) -> dict[str, float]:
    """Numbers of one operation; a consolidate that is split goes to other workers."""
    away = [(group * 6 // 60 + 1) % 6 for group in range(60)]
    kind, _, strategy = what.partition(", ")
    event: dict[str, Any] = {"kind": kind, "operator": "consolidate", "at_s": AT_S}
    event |= {"owners": away} if kind == "split" else {"strategy": strategy}
    job = simple_job(
        pane_keys=PANE_KEYS,
        rate_per_s=LOADED_PER_S,
        horizon_s=OPERATED_S,
        combined=kind == "split",
        minutes=MINUTES,
        events=[event],
        key_bytes=key_bytes,
        seed=seed,
    )
    return _numbers(next(row for row in simulate(job).event_rows if row["kind"] == kind))


FIG10 = Experiment(
    name="enorm.fig10",
    source="Enorm, Fig. 10, Section 7.2",
    summary="pause of a key group by strategy and size of state, simulated",
    tables={
        "pauses": CaseTable(
            title="One key group moves at 70 % load",
            columns="""
                state_mb: state of the key group (MB) | disruptive: disruptive: pause (s) |
                held: all windows held (s) | instant: instant: pause (s) | left_mb: left to be merged (MB) | paper
            """,
            cases=grid(key_bytes=STATE_BYTES),
            measure=pauses,
            shapes=pause_shapes,
            published=dict.fromkeys(STATE_BYTES, "disruptive grows with the state, instant negligible"),
            by=("key_bytes",),
        )
    },
    figures={
        "pauses": lines(
            "state of the key group (MB)",
            "pause (s)",
            x=lambda row: round(row["state_mb"], 1),
            y={"disruptive": "disruptive", "instant": "instant"},
        )
    },
    notes=NOTES,
)
FIG11 = Experiment(
    name="enorm.fig11",
    source="Enorm, Fig. 11, Section 7.3",
    summary="pauses and completion of split and combine by size of state, simulated",
    tables={
        "operations": CaseTable(
            title="Split and combine at 70 % load, windows of 5 and 10 minutes",
            columns="""
                state_mb: state of a key group (MB) | what: operation | paused: pause (s) |
                completed: completed after (s) | copies: partial results sent twice | paper
            """,
            cases=grid(key_bytes=STATE_BYTES, what=OPERATIONS),
            measure=operations,
            shapes=operation_shapes,
            published={
                "split": "at once, no latency",
                "combine, disruptive": "latency by state",
                "combine, smooth": "no latency, as long as the longest window",
            },
            by=("what",),
        )
    },
    figures={
        "operations": lines(
            "state of a key group (MB)", "completed after (s)", x="state_mb", y="completed", series="what"
        )
    },
    notes=NOTES,
)


# CPU: Fig. 12 --------------------------------------------------------------------------------------------------------
# CPU cost of moving a share of the key groups, by strategy.


SHARES = (0.25, 0.5, 0.75, 1.0)
LATE_S, EARLY_S, AFTER_S = 1220.0, 320.0, 280.0
"""Times at which key groups move, 20 s into a pane: after the paper's twenty minutes or, on the smaller scale, after
the first window; and the remaining length of a run, to the end of the window after it."""
SIMILAR = 0.01
"""Share of a run's work below which overheads cannot be told apart in the times of completion that the paper has."""
KEYS = {"keys that repeat": 300_000, "keys that hardly repeat": 1_500_000}


def moved_at_s(workspace: Workspace) -> float:
    """Time at which key groups move [s]."""
    return LATE_S if large(workspace) else EARLY_S


def overhead(workspace: Workspace, keys: str, share: float) -> Row:
    """Row of the work that moving a share of the key groups adds; records are the same, and all groups move once."""
    base_s = used(workspace, "instant", 0.0, keys)
    more = {strategy: used(workspace, strategy, share, keys) - base_s for strategy in ("instant", "disruptive")}
    return {**more, **{f"{strategy}_share": value / base_s for strategy, value in more.items()}}


def used(workspace: Workspace, strategy: str, share: float, keys: str) -> float:
    """Core-seconds of the workers in one run, measured now or earlier."""
    case = {"strategy": strategy, "share": share, "keys": KEYS[keys], "at_s": moved_at_s(workspace)}
    return float(workspace.measured("enorm-fig12", measured, **case))


def measured(strategy: str, share: float, keys: int, at_s: float, seed: int) -> float:
    """Core-seconds of the workers in one run; key groups go to the next worker but one."""
    count = round(share * GROUPS)
    owners = [group * WORKERS // GROUPS for group in range(GROUPS)]
    moved = {number * GROUPS // count for number in range(count)}
    after = [(owner + 2) % WORKERS if group in moved else owner for group, owner in enumerate(owners)]
    event = {"kind": "repartition", "operator": COMPUTE, "at_s": at_s, "owners": after, "strategy": strategy}
    job = simple_job(
        pane_keys=keys,
        rate_per_s=LOADED_PER_S,
        horizon_s=at_s + AFTER_S,
        events=[event] if count else [],
        seed=seed,
        noise=False,
    )
    return worker_cpu_s(simulate(job))


def cpu_shapes(rows: Rows) -> Rows:
    """Compares the overheads of both strategies."""
    apart = max(abs(row["instant_share"] - row["disruptive_share"]) for row in rows)
    found = [
        shape("the whole run: instant against disruptive", "similar", f"at most {apart:.2%} of its work more or less",
              apart < SIMILAR, f"less than {SIMILAR:.0%} counts")
    ]  # fmt: skip
    for keys in KEYS:
        ratios = [row["instant"] / row["disruptive"] for row in rows if row["keys"] == keys]
        found.append(
            shape(f"the moving itself, {keys}", "the same bytes either way", f"{span(ratios)} times disruptive's",
                  within(ratios, 0.9, 1.1), "a key that came before and after the move has a second partial result, "
                  "for 22 us; moving a key's state takes 12 us")
        )  # fmt: skip
    return found


FIG12 = Experiment(
    name="enorm.fig12",
    source="Enorm, Fig. 12, Section 7.4",
    summary="what moving a share of the key groups costs in CPU, by strategy, simulated",
    tables={
        "overhead": CaseTable(
            title=lambda workspace: f"CPU of moving key groups after {moved_at_s(workspace):g} s",
            columns="""
                keys | share: key groups moved | instant: instant: core-seconds more |
                disruptive: disruptive: core-seconds more | instant_share: instant, of all |
                disruptive_share: disruptive, of all | paper
            """,
            cases=grid(keys=KEYS, share=SHARES),
            measure=overhead,
            shapes=cpu_shapes,
            published=dict.fromkeys(KEYS, "similar for both"),
            by=("keys",),
        )
    },
    figures={
        "overhead": lines(
            "key groups moved (%)",
            "core-seconds more",
            x=lambda row: 100.0 * row["share"],
            y={"instant": "instant", "disruptive": "disruptive"},
            series="{quantity}, {keys}",
        )
    },
    notes=notes(),
)


# a hot spot: Fig. 13 -------------------------------------------------------------------------------------------------
# Latency while a hot spot goes from worker to worker, by strategy and frequency of migration.


HOT_KEYS = 120_000
HOT_KEY_BYTES = 10_000.0
"""State of a key [bytes]: a key group of 2,000 keys pauses for seconds, as the paper's of 50,000 smaller ones may."""
FINER = 50
"""Number of records that a simulated one stands for: latency shows the time of a single one."""
ROUND_S, RISES_S, SETTLE_S = 300.0, 180.0, 300.0
"""Times of the hot spot: a new hot worker every five minutes, after the first five; its load rises for three."""
HOT = 1.667
"""Factor on a hot worker's part of the records: with the others at 90 %, half as much load again."""
PERIOD_S = 5.0
WAYS: Mapping[str, tuple[str | None, int]] = {
    "no migration": (None, 1),
    "disruptive, every 5 minutes": ("disruptive", 60),
    "disruptive, every minute": ("disruptive", 12),
    "instant, every 5 s": ("instant", 1),
}


def rounds_of(workspace: Workspace) -> int:
    """Number of rounds: as many as there are workers; two at a scale of minutes."""
    return WORKERS if large(workspace) else 2


def latency(workspace: Workspace, way: str) -> Row:
    """Row of one way. All ways have the same input."""
    found = workspace.measured("enorm-fig13", course, way=way, rounds=rounds_of(workspace))
    return {**found["summary"], "_minutes": [max(1e-3, value) for value in found["minutes"]]}


def course(way: str, rounds: int, seed: int, fewer: int = FINER) -> dict[str, Any]:
    """Row of the table, and mean latency by minute, of one run."""
    strategy, periods = WAYS[way]
    policy = None
    if strategy is not None:
        policy = {"name": "flux", "strategy": strategy, "every_periods": periods, "max_migrations": 10, "band": 2.0}
    events = []
    for number in range(rounds):
        at_s = SETTLE_S + number * ROUND_S
        events.append(_skew(number % WORKERS, at_s, HOT))
        if number:
            events.append(_skew((number - 1) % WORKERS, at_s, 1.0))
    job = simple_job(
        pane_keys=HOT_KEYS,
        rate_per_s=LOADED_PER_S,
        horizon_s=SETTLE_S + rounds * ROUND_S,
        fewer=fewer,
        events=events,
        key_bytes=HOT_KEY_BYTES,
        period_s=PERIOD_S,
        seed=seed,
        policy=policy,
    )
    return _read(simulate(job))


def _skew(worker: int, at_s: float, factor: float) -> dict[str, Any]:
    mine = [group for group in range(GROUPS) if group * WORKERS // GROUPS == worker]
    return {
        "kind": "skew",
        "operator": COMPUTE,
        "key_groups": mine,
        "factor": factor,
        "at_s": at_s,
        "over_s": RISES_S,
    }


def _read(found: Run) -> dict[str, Any]:
    rows = [row for row in found.operator_rows if row["operator"] == COMPUTE and row["start_s"] >= SETTLE_S]
    sums = np.array([row["processingLatencySum_s"] for row in rows])
    counts = np.array([row["latencyCount"] for row in rows], dtype=float)
    a_minute = round(60.0 / PERIOD_S)
    minutes = [
        1e3 * float(sums[k : k + a_minute].sum() / max(1.0, counts[k : k + a_minute].sum()))
        for k in range(0, len(rows), a_minute)
    ]
    sketch = histogram_of(rows, "processing")
    moves = [row for row in found.event_rows if row["kind"] == "migration"]
    summary = {
        "mean": 1e3 * float(sums.sum() / counts.sum()),
        "p99": 1e3 * quantile_s(sketch, 0.99),
        "worst": max(minutes),
        "moves": sum(len(row["detail"].get("key_groups", ())) for row in moves),
        "paused": float(sum(row["paused_s"] or 0.0 for row in moves)),
    }
    return {"summary": summary, "minutes": minutes}


def hot_spot_shapes(rows: Rows) -> Rows:
    """Compares mean latencies."""
    rarely, often, instant = (row["mean"] for row in rows if row["way"] != "no migration")
    return [
        shape("disruptive, every 5 minutes", "extensive; every minute is better", f"{rarely:.3g} ms for {often:.3g}",
              rarely > often),
        shape("instant against disruptive every minute", "a factor of ten", f"a factor of {often / instant:.2g}",
              within([often / instant], 10.0 / 2.0, 10.0 * 2.0), "within a factor of two counts; serving and queueing, "
              f"which is all that instant has, are {FINER} times as long as the job's, and pauses as long as its own"),
    ]  # fmt: skip


FIG13 = Experiment(
    name="enorm.fig13",
    source="Enorm, Fig. 13, Section 7.5",
    summary="latency under a moving hot spot, by strategy and frequency of migration, simulated",
    tables={
        "latency": CaseTable(
            title=lambda workspace: f"{rounds_of(workspace)} hot workers one after the other, after {SETTLE_S:g} s",
            columns="""
                way: migration | mean: latency of records, mean (ms) | p99: 99th percentile (ms) |
                worst: mean of the worst minute (ms) | moves: key groups moved | paused: pauses together (s) |
                paper
            """,
            cases=grid(way=WAYS),
            measure=latency,
            shapes=hot_spot_shapes,
            published={
                "no migration": "-",
                "disruptive, every 5 minutes": "extensive",
                "disruptive, every minute": "ten times that of instant",
                "instant, every 5 s": "a tenth of disruptive each minute",
            },
            by=("way",),
        )
    },
    figures={
        "latency": lines(
            "minute",
            "latency of records (ms)",
            y="_minutes",
            series="way",
            only={"way": [way for way, (strategy, _) in WAYS.items() if strategy is not None]},
            logarithmic=True,
        )
    },
    notes=f"""{notes(FINER)}
- Latency: from when a record is taken from the broker until it is in the state of its pane, pauses included.
""",
)
