"""Enorm, Fig. 9 and Section 7.7: what consolidation takes of the throughput, by keys, windows and form."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from papers.enorm.simple_job import (
    CHANNEL_TUPLES,
    NOTES,
    SIX,
    TWO,
    ran,
    scale_note,
    simple_job,
    taken_per_s,
)
from papers.interface import Experiment, Result, Table
from papers.sizes import Sizes
from papers.workspace import Workspace

KEYS = (20_000, 100_000, 500_000, 1_000_000, 2_000_000)
OFFERED_PER_S = 44_000.0
"""A bit more than the job can take."""
TUPLES = 18e6
LARGE = 500
"""Fresh runs of an evaluation, from which on a scale is the paper's."""
SHORT_S, STEADY_S = 480.0, 3600.0
"""As long as the paper's 18 million tuples last; and an hour, of which all windows get their share."""

COLUMNS = {
    "windows": "windows",
    "keys": "keys a partial result",
    "combined": "combined, tuples/s",
    "split": "split, tuples/s",
    "ratio": "split takes so many times as long",
}
SHAPES = {"what": "shape", "paper": "paper", "ours": "ours", "verdict": "verdict"}
FIGURES_77 = {
    "form": "form",
    "time_s": "seconds for 18 million tuples",
    "paper_s": "paper (s)",
}
FITTED_KEYS = 2_000_000


def run(workspace: Workspace, sizes: Sizes) -> Result:
    """Both forms, over two windows and, where a run is long enough, six."""
    long = sizes.n >= LARGE
    horizon_s, windows = (STEADY_S, (TWO, SIX)) if long else (SHORT_S, (TWO,))  # no other is complete so soon
    rows = list[dict[str, Any]]()
    with workspace.audience.progress("pairs of runs") as report:
        for minutes in windows:
            for keys in KEYS:
                rates = {
                    combined: throughput(workspace, keys, combined, minutes, horizon_s) for combined in (True, False)
                }
                rows.append(
                    {
                        "windows": len(minutes),
                        "keys": keys,
                        "combined": rates[True],
                        "split": rates[False],
                        "ratio": rates[True] / rates[False],
                    }
                )
                report(len(rows), len(windows) * len(KEYS))
    tables = {
        "throughput": Table(f"Throughput of the overloaded simple job, {horizon_s:g} s", COLUMNS, tuple(rows)),
        "shapes": Table("Shapes", SHAPES, tuple(shapes(rows))),
    }
    figures: dict[str, Callable[[], Any]] = {"throughput": partial(_drawn, rows)}
    return Result(tables, figures, (*NOTES, scale_note()))


def throughput(workspace: Workspace, keys: int, combined: bool, minutes: tuple[int, ...], horizon_s: float) -> float:
    """Tuples a second after the first minute."""
    key = {"keys": keys, "combined": combined, "minutes": list(minutes), "seconds": horizon_s}
    return float(
        workspace.cached("enorm-fig9", key, lambda: measured(keys, combined, minutes, horizon_s, workspace.seed))
    )


def measured(keys: int, combined: bool, minutes: tuple[int, ...], horizon_s: float, seed: int) -> float:
    """Of one run. Channels hold as many simulated tuples as the job's hold of its own: the fewer tuples there are, the
    less alike are the workers' shares, and none may starve because the channel of another is full."""
    job = simple_job(
        pane_keys=keys,
        rate_per_s=OFFERED_PER_S,
        horizon_s=horizon_s,
        channel_tuples=CHANNEL_TUPLES,
        combined=combined,
        minutes=minutes,
        seed=seed,
        warmup_s=60.0,
        period_s=60.0,
    )
    return taken_per_s(ran(job))


def shapes(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the paper says of its figure, and whether it is so here."""
    by = {(row["windows"], row["keys"]): row for row in rows}
    most, least = KEYS[-1], KEYS[0]
    falls = {form: 1.0 - by[2, most][form] / by[2, least][form] for form in ("combined", "split")}
    doubled = 1.0 - by[2, most]["combined"] / by[2, KEYS[-2]]["combined"]
    found = [
        _shape("split is slower", "everywhere", f"{sum(row['ratio'] > 1.0 for row in rows)} of {len(rows)}",
               all(row["ratio"] > 1.0 for row in rows if row["keys"] >= KEYS[1])),
        _shape("twice the keys, combined", "very little", f"{doubled:.1%} less", doubled < 0.05),
        _shape("more keys: split falls more", "yes", f"{falls['split']:.1%} against {falls['combined']:.1%}",
               falls["split"] > falls["combined"]),
    ]  # fmt: skip
    if (len(SIX), most) in by:
        windows = max(abs(by[6, keys]["combined"] / by[2, keys]["combined"] - 1.0) for keys in KEYS)
        found.append(_shape("six windows for two, combined", "little impact", f"at most {windows:.1%}", windows < 0.05))
    return found


def _shape(what: str, paper: str, ours: str, same: bool) -> dict[str, Any]:
    return {"what": what, "paper": paper, "ours": ours, "verdict": "agrees" if same else "differs"}


def components(workspace: Workspace, _sizes: Sizes) -> Result:
    """Section 7.7: how long 18 million tuples take as one component and as two."""
    found = {
        form: TUPLES / throughput(workspace, FITTED_KEYS, form == "combined", (5,), SHORT_S)
        for form in ("combined", "split")
    }
    rows = [
        {"form": "one component (combined)", "time_s": found["combined"], "paper_s": 456},
        {"form": "two components (split)", "time_s": found["split"], "paper_s": 512},
        {"form": "ratio", "time_s": found["split"] / found["combined"], "paper_s": 512 / 456},
    ]
    note = "The costs were chosen for this ratio: that the simulated job has it checks the simulator, not the costs."
    table = Table(f"{FITTED_KEYS:,} keys a partial result, a window of 5 minutes", FIGURES_77, tuple(rows))
    return Result({"times": table}, {}, (*NOTES, scale_note(), note))


def _drawn(rows: list[dict[str, Any]]) -> Any:
    from figures.lines import lines

    forms = [
        (form, windows) for windows in dict.fromkeys(row["windows"] for row in rows) for form in ("combined", "split")
    ]
    points: dict[str, list[Any]] = {
        "series": [f"{form}, {windows} windows" for form, windows in forms for _ in KEYS],
        "x": [keys / 1e6 for _ in forms for keys in KEYS],
        "y": [row[form] / 1e3 for form, windows in forms for row in rows if row["windows"] == windows],
    }
    return lines(points, "keys a partial result (millions)", "thousand tuples a second")


FIG9 = Experiment(
    name="enorm.fig9",
    source="Enorm, Fig. 9, Section 7.1",
    summary="throughput of the simple job by keys, windows and form, simulated",
    run=run,
)
COMPONENTS = Experiment(
    name="enorm.components",
    source="Enorm, Section 7.7",
    summary="the simple job as one component and as two: seconds for 18 million tuples, simulated",
    run=components,
)
