"""Enorm, Fig. 9 and Section 7.7: throughput that consolidation costs, by keys, windows and form."""

from __future__ import annotations

from papers.drawing import lines
from papers.enorm.simple_job import (
    CHANNEL_RECORDS,
    SIX,
    TWO,
    large,
    notes,
    simple_job,
    taken_per_s,
)
from papers.interface import CaseTable, Experiment, Row, Rows, grid, shape, within
from papers.workspace import Workspace
from twin.simulation import simulate

KEYS = (20_000, 100_000, 500_000, 1_000_000, 2_000_000)
OFFERED_PER_S = 44_000.0
"""Offered rate, a bit more than the job can take."""
RECORDS = 18e6
FITTED_KEYS = 2_000_000
FITTED_TO = 0.02
"""Relative deviation that fitted times may have: costs are whole microseconds, and a run's first partial result is
short."""
SHORT_S, STEADY_S = 480.0, 3600.0
"""Lengths of a run: as long as the paper's 18 million records last; and an hour, in which all windows are complete."""


def horizon_s(workspace: Workspace) -> float:
    """Length of a run [s]."""
    return STEADY_S if large(workspace) else SHORT_S


def pairs(workspace: Workspace) -> Rows:
    """Cases of the table: two windows and, where a run is long enough for all to be complete, six."""
    return grid(minutes=(TWO, SIX) if large(workspace) else (TWO,), keys=KEYS)


def both_forms(workspace: Workspace, minutes: tuple[int, ...], keys: int) -> Row:
    """Row of the throughputs of one component and of two."""
    combined, split = (throughput(workspace, keys, form, minutes, horizon_s(workspace)) for form in (True, False))
    return {"windows": len(minutes), "combined": combined, "split": split, "ratio": combined / split}


def throughput(workspace: Workspace, keys: int, combined: bool, minutes: tuple[int, ...], seconds: float) -> float:
    """Rate of records after the first minute [1/s]."""
    case = {"keys": keys, "combined": combined, "minutes": list(minutes), "seconds": seconds}
    return float(workspace.measured("enorm-fig9", measured, **case))


def measured(keys: int, combined: bool, minutes: tuple[int, ...], seconds: float, seed: int) -> float:
    """Rate of records of one run. Channels hold as many simulated records as the job's hold of its own: the fewer
    records there are, the more the workers' shares differ, and none may starve because the channel of another is
    full."""
    job = simple_job(
        pane_keys=keys,
        rate_per_s=OFFERED_PER_S,
        horizon_s=seconds,
        channel_records=CHANNEL_RECORDS,
        combined=combined,
        minutes=minutes,
        seed=seed,
        warmup_s=60.0,
        period_s=60.0,
    )
    return taken_per_s(simulate(job))


def shapes(rows: Rows) -> Rows:
    """Compares with the paper's words on its figure; for six windows only if there are such rows."""
    by = {(row["windows"], row["keys"]): row for row in rows}
    most, least = KEYS[-1], KEYS[0]
    falls = {form: 1.0 - by[2, most][form] / by[2, least][form] for form in ("combined", "split")}
    doubled = 1.0 - by[2, most]["combined"] / by[2, KEYS[-2]]["combined"]
    found = [
        shape("split is slower", "everywhere", f"{sum(row['ratio'] > 1.0 for row in rows)} of {len(rows)}",
               all(row["ratio"] > 1.0 for row in rows)),
        shape("twice the keys, combined", "very little", f"{doubled:.1%} less", doubled < 0.05),
        shape("more keys: split falls more", "yes", f"{falls['split']:.1%} against {falls['combined']:.1%}",
               falls["split"] > falls["combined"]),
    ]  # fmt: skip
    if (len(SIX), most) in by:
        windows = max(abs(by[6, keys]["combined"] / by[2, keys]["combined"] - 1.0) for keys in KEYS)
        found.append(shape("six windows for two, combined", "little impact", f"at most {windows:.1%}", windows < 0.05))
    return found


def fitted(workspace: Workspace) -> Rows:
    """Rows of the time of 18 million records as one component and as two (Section 7.7)."""
    combined, split = (RECORDS / throughput(workspace, FITTED_KEYS, form, (5,), SHORT_S) for form in (True, False))
    times = {"one component (combined)": combined, "two components (split)": split, "ratio": split / combined}
    return [{"form": form, "time_s": time_s} for form, time_s in times.items()]


def fit_shapes(rows: Rows) -> Rows:
    """Compares with the seconds that costs are fitted to."""
    return [
        shape(row["form"], f"{row['paper_s']:.3g}", f"{row['time_s']:.3g}",
              within([row["time_s"] / row["paper_s"]], 1.0 - FITTED_TO, 1.0 + FITTED_TO),
              f"{FITTED_TO:.0%} counts: costs are fitted to it, so that it checks the simulator, not the costs")
        for row in rows
    ]  # fmt: skip


FIG9 = Experiment(
    name="enorm.fig9",
    source="Enorm, Fig. 9, Section 7.1",
    summary="throughput of the simple job by keys, windows and form, simulated",
    tables={
        "throughput": CaseTable(
            title=lambda workspace: f"Throughput of the overloaded simple job, {horizon_s(workspace):g} s",
            columns="""
                windows | keys: keys a partial result | combined: combined, records/s | split: split, records/s |
                ratio: split takes so many times as long
            """,
            cases=pairs,
            measure=both_forms,
            shapes=shapes,
        )
    },
    figures={
        "throughput": lines(
            "keys a partial result (millions)",
            "thousand records a second",
            x=lambda row: row["keys"] / 1e6,
            y={"combined": "combined", "split": "split"},
            series="{quantity}, {windows} windows",
            factor=1e-3,
        )
    },
    notes=notes(),
)
COMPONENTS = Experiment(
    name="enorm.components",
    source="Enorm, Section 7.7",
    summary="the simple job as one component and as two: seconds for 18 million records, simulated",
    tables={
        "times": CaseTable(
            title=f"{FITTED_KEYS:,} keys a partial result, a window of 5 minutes",
            columns="form | time_s: seconds for 18 million records | paper_s: paper (s)",
            measure=fitted,
            shapes=fit_shapes,
            published={
                "one component (combined)": {"paper_s": 456},
                "two components (split)": {"paper_s": 512},
                "ratio": {"paper_s": 512 / 456},
            },
            by=("form",),
        )
    },
    notes=notes(),
)
