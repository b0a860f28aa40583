"""What Costream's paper says of its tables and figures, beside the rows of ours; a function a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from papers.costream import planners
from papers.costream.judging import SHORT
from papers.shapes import Row, apart, shape, span, within
from twin.metrics import REGRESSION_METRICS

Rows = Sequence[Mapping[str, Any]]
NOISE = "a simulated corpus has less noise than a cluster, and other tails"
LEVELS = apart("levels of q-errors and accuracies", "measured on Storm", "simulated", NOISE)
PAPERS, FLAT = "GNN (paper)", "Flat Vector (raw)"
PUBLISHED = "paper: Costream (Storm)"
NO_GAIN = 1.01
"""A plan that is less than so many times faster is as fast."""


def rivals(rows: Rows) -> list[Row]:
    """The paper's network before Flat Vector, in each metric; rows: of `judging.line`s, a seed's or several."""
    return [*(_before(rows, metric) for metric in SHORT), LEVELS]


def _before(rows: Rows, metric: str) -> Row:
    lower = metric in REGRESSION_METRICS
    key, form = (f"{metric}_q50", ".3g") if lower else (f"{metric}_accuracy", ".1%")
    ours, flat = (
        {_judged(row): row[key] for row in rows if row["model"] == name and row.get(key)} for name in (PAPERS, FLAT)
    )
    what, both = f"{SHORT[metric]}: Costream's network before Flat Vector", [each for each in ours if each in flat]
    if not both:
        return apart(what, "yes", "-", "one class, or no label")
    good = sum((ours[each] < flat[each]) == lower for each in both)
    text = f"{good} of {len(both)}: {span(list(ours.values()), form)} against {span(list(flat.values()), form)}"
    return shape(what, "yes", text, good == len(both))


def _judged(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """What two lines must share to be compared."""
    return row.get("queries"), row.get("training_seed")


def bounded(rows: Rows, bounds: Mapping[str, float]) -> list[Row]:
    """Groups of runs against one bound for all, Figs. 7 and 8; rows: q50 or accuracy by metric and group."""
    found = []
    for name, key, better in (("q_error", "q50", min), ("accuracy", "accuracy", max)):
        if name in bounds:
            values = [row[key] for row in rows if row["model"] == PAPERS and row[key] is not None]
            good = sum(better(value, bounds[name]) == value for value in values)
            text = f"{good} of {len(values)}, {span(values, '.3g')}"
            what = f"groups with a median {name.replace('_', '-')} within {bounds[name]}"
            found.append(
                shape(what, "all", text, good == len(values)) if values else apart(what, "all", "-", "too few runs")
            )
    return [*found, LEVELS]


def features(rows: Rows) -> list[Row]:
    """Fig. 12."""
    medians = [row["q50"] for row in rows]
    ours = " > ".join(f"{each:.3g}" for each in medians)
    falling = medians[0] > medians[1] > medians[2]
    return [shape("Le: placement helps, and hardware more", "2.6 > 2.22 > 1.37", ours, falling), LEVELS]


def schemes(rows: Rows) -> list[Row]:
    """Fig. 13; rows: the traditional scheme first."""
    half = len(rows) // 2
    found = []
    for before, after in zip(rows[:half], rows[half:], strict=True):
        text = f"{after['q50']:.4g} against {before['q50']:.4g}"
        found.append(shape(f"{after['metric']}: three phases are better", "yes", text, after["q50"] < before["q50"]))
    return [*found, LEVELS]


def speed_ups(rows: Rows) -> list[Row]:
    """Fig. 9; rows: of all query types, a planner each."""
    by = {(row["type"], row["planner"]): row["speed_up"] for row in rows if row["type"] != "all"}
    types = list(dict.fromkeys(name for name, _ in by))
    ours, flat = ([_number(by.get((name, planner))) for name in types] for planner in (planners.PAPER, planners.FLAT))
    against = ", ".join(f"{mine:.3g} against {other:.3g}" for mine, other in zip(ours, flat, strict=True))
    more = all(mine > other for mine, other in zip(ours, flat, strict=True))
    gains = f"{sum(each > NO_GAIN for each in ours)} of {len(ours)}: {', '.join(f'{each:.3g}' for each in ours)}"
    return [
        shape("faster than the heuristic's by Costream's network", "all types", gains, min(ours) > NO_GAIN),
        shape("and than those by Flat Vector", "all types", against, more),
        shape("linear queries gain the most", "yes, 21.3", f"{ours[0]:.3g} of {max(ours):.3g}", ours[0] == max(ours)),
        apart("how many times faster", "4.89 to 21.3", span(ours, ".3g"), "measured on Storm, on another cluster"),
    ]


def _number(value: float | None) -> float:
    """Infinite where the heuristic's plans have no results."""
    return float("inf") if value is None else value


def monitored(rows: Rows) -> list[Row]:
    """Fig. 10; rows: of jobs."""
    slow = [row["slow_down"] for row in rows if row["slow_down"] is not None]
    late = [row["overhead_s"] for row in rows if row["overhead_s"] is not None]
    good, never = sum(each > 1.0 for each in slow), len(rows) - len(late)
    text = f"{span(late, '.0f')} s; {never} of {len(rows)} never within the run"
    why = "a decision needs three stable periods of 10 s here; when the paper's is made is not said"
    level = "here it is the ratio of two latencies that the hosts of the job were given"
    return [
        shape("the initial placement is better for all jobs", "yes", f"{good} of {len(rows)}", good == len(rows)),
        shape("monitoring takes from 70 s to over two minutes", "yes", text, within(late, 70.0, float("inf")), why),
        apart("slow-down until then", "up to 166", f"up to {max(slow, default=0.0):.0f}", level),
    ]


def fine_tuned(rows: Rows) -> list[Row]:
    """Fig. 11; rows: of the paper's network untuned first, then with ever more chains, rehearsal last. Without that
    network there is nothing to compare."""
    mine = [row for row in rows if row["model"] == PAPERS and "rehearsal" not in row["learned"]]
    if not mine:
        return [LEVELS]
    before, after = ([each[f"chain{length}_q50"] for length in (2, 3, 4)] for each in (mine[0], mine[-1]))
    pairs = ", ".join(f"{one:.3g} to {other:.3g}" for one, other in zip(before, after, strict=True))
    less = all(other < one for one, other in zip(before, after, strict=True))
    rising = " < ".join(f"{each:.3g}" for each in before)
    return [
        shape("T: the more filters, the worse before", "2.74 < 2.87 < 5.51", rising, before == sorted(before)),
        shape("T: better after, for any number of filters", "5.51 to 1.61 for four", pairs, less),
        LEVELS,
    ]


def chains(rows: Rows) -> list[Row]:
    """Table VI A; rows: of all numbers of filters, from the least."""
    medians = [row["throughput_per_s_q50"] for row in rows if row["model"] == PAPERS]
    rising = " < ".join(f"{each:.3g}" for each in medians)
    right = [row["success_right"] for row in rows if row["model"] == FLAT and row.get("success_right") is not None]
    text = f"{span(right, '.0%')} taken rightly"
    failing = "Flat Vector takes chains for failures"
    return [
        *rivals(rows),
        shape("T: the more filters, the worse", "2.74 < 2.87 < 5.51", rising, medians == sorted(medians)),
        shape(failing, "4% to 6% taken rightly", text, within(right, 0.0, 0.5))
        if right
        else apart(failing, "4% to 6% taken rightly", "-", "no corpus here has one class alone"),
    ]


def extrapolated(rows: Rows) -> list[Row]:
    """Table V; rows: of all ranges. Without the paper's network there is nothing to compare."""
    if all(row["model"] != PAPERS for row in rows):
        return [LEVELS]
    found = []
    for metric in ("throughput_per_s", "processing_latency_s"):
        ours, papers = (
            {row["range"].split(":")[0]: row[f"{metric}_q50"] for row in rows if row["model"] == name}
            for name in (PAPERS, PUBLISHED)
        )
        worst, theirs = max(ours, key=ours.__getitem__), max(papers, key=papers.__getitem__)
        what = f"{SHORT[metric]}: worst of all ranges"
        found.append(shape(what, f"{theirs}, {papers[theirs]:.3g}", f"{worst}, {ours[worst]:.3g}", worst == theirs))
    return [*found, LEVELS]
