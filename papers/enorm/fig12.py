"""Enorm, Fig. 12: what moving a share of the key groups costs in CPU, by strategy."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from papers.enorm.fig9 import LARGE
from papers.enorm.simple_job import (
    COMPUTE,
    GROUPS,
    NOTES,
    WORKERS,
    ran,
    scale_note,
    simple_job,
    worker_cpu_s,
)
from papers.interface import Experiment, Result, Table
from papers.sizes import Sizes
from papers.workspace import Workspace

SHARES = (0.25, 0.5, 0.75, 1.0)
LATE_S, EARLY_S, AFTER_S = 1220.0, 320.0, 280.0
"""When key groups move, 20 s into a pane: after the paper's twenty minutes or, on the smaller scale, after the first
window; and how much longer a run lasts, to the end of the window after it."""
RATE_PER_S = 28_000.0
KEYS = {"keys that repeat": 300_000, "keys that hardly repeat": 1_500_000}

COLUMNS = {
    "keys": "keys",
    "share": "key groups moved",
    "instant": "instant: core-seconds more",
    "disruptive": "disruptive: core-seconds more",
    "instant_share": "instant, of all",
    "disruptive_share": "disruptive, of all",
    "paper": "paper",
}


def run(workspace: Workspace, sizes: Sizes) -> Result:
    """The same tuples, with no, some, or all key groups moved once."""
    at_s = LATE_S if sizes.n >= LARGE else EARLY_S
    rows = list[dict[str, Any]]()
    for name, keys in KEYS.items():
        base_s = used(workspace, "instant", 0.0, keys, at_s)
        for share in SHARES:
            more = {each: used(workspace, each, share, keys, at_s) - base_s for each in ("instant", "disruptive")}
            rows.append(
                {
                    "keys": name,
                    "share": share,
                    **more,
                    **{f"{each}_share": value / base_s for each, value in more.items()},
                    "paper": "similar for both",
                }
            )
    figures: dict[str, Callable[[], Any]] = {"overhead": partial(_drawn, rows)}
    note = (
        f"All of it is less than {max(row['disruptive_share'] for row in rows):.2%} of the run's work. Instant "
        "migration sends and merges a second partial result of a key that came before and after the move, for "
        "22 us, where moving a key's state takes 12 us: where keys repeat instant costs more, where they do not, less."
    )
    return Result(
        {"overhead": Table(f"CPU of moving key groups after {at_s:g} s", COLUMNS, tuple(rows))},
        figures,
        (*NOTES, scale_note(), note),
    )


def used(workspace: Workspace, strategy: str, share: float, keys: int, at_s: float) -> float:
    """Core-seconds of the workers."""
    key = {"strategy": strategy, "share": share, "keys": keys, "at_s": at_s}
    return float(workspace.cached("enorm-fig12", key, partial(measured, strategy, share, keys, at_s, workspace.seed)))


def measured(strategy: str, share: float, keys: int, at_s: float, seed: int) -> float:
    """Of one run; key groups go to the next worker."""
    count = round(share * GROUPS)
    owners = [group * WORKERS // GROUPS for group in range(GROUPS)]
    moved = {number * GROUPS // count for number in range(count)}
    after = [(owner + 2) % WORKERS if group in moved else owner for group, owner in enumerate(owners)]
    event = {"kind": "repartition", "operator": COMPUTE, "at_s": at_s, "owners": after, "strategy": strategy}
    job = simple_job(
        pane_keys=keys,
        rate_per_s=RATE_PER_S,
        horizon_s=at_s + AFTER_S,
        events=[event] if count else [],
        seed=seed,
        noise=False,
    )
    return worker_cpu_s(ran(job))


def _drawn(rows: list[dict[str, Any]]) -> Any:
    from figures.lines import lines

    series = [(name, each) for name in KEYS for each in ("instant", "disruptive")]
    points: dict[str, list[Any]] = {
        "series": [f"{each}, {name}" for name, each in series for _ in SHARES],
        "x": [100.0 * share for _ in series for share in SHARES],
        "y": [row[each] for name, each in series for row in rows if row["keys"] == name],
    }
    return lines(points, "key groups moved (%)", "core-seconds more")


FIG12 = Experiment(
    name="enorm.fig12",
    source="Enorm, Fig. 12, Section 7.4",
    summary="what moving a share of the key groups costs in CPU, by strategy, simulated",
    run=run,
)
