"""Enorm, Fig. 12: CPU cost of moving a share of the key groups, by strategy."""

from __future__ import annotations

from papers.drawing import lines
from papers.enorm.simple_job import (
    COMPUTE,
    GROUPS,
    WORKERS,
    large,
    notes,
    simple_job,
    worker_cpu_s,
)
from papers.interface import CaseTable, Experiment, Row, Rows, grid, shape, span, within
from papers.workspace import Workspace
from twin.simulation import simulate

SHARES = (0.25, 0.5, 0.75, 1.0)
LATE_S, EARLY_S, AFTER_S = 1220.0, 320.0, 280.0
"""Times at which key groups move, 20 s into a pane: after the paper's twenty minutes or, on the smaller scale, after
the first window; and the remaining length of a run, to the end of the window after it."""
RATE_PER_S = 28_000.0
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
        rate_per_s=RATE_PER_S,
        horizon_s=at_s + AFTER_S,
        events=[event] if count else [],
        seed=seed,
        noise=False,
    )
    return worker_cpu_s(simulate(job))


def shapes(rows: Rows) -> Rows:
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
            shapes=shapes,
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
