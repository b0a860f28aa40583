"""Enorm, Figs. 10 and 11: pause of a key group, and times of splitting and combining, by size of state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from papers.drawing import lines
from papers.enorm.simple_job import COMPUTE, FEWER, PANE_S, notes, simple_job
from papers.interface import CaseTable, Experiment, Row, Rows, grid, shape, span
from papers.workspace import Workspace
from twin.simulation import simulate

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
