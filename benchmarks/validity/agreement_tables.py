"""Tables of how well fast runs agree with exact ones: q-errors beside their limits, bias, the worst configurations."""

from __future__ import annotations

import numpy as np

from benchmarks.validity.agreement import FAR, QUANTITIES, Comparison, q_errors

WIDE = {"T": (1.02, 1.10), "Le": (1.03, 1.25), "Lp": (1.03, 1.25), "Le p95": (1.05, 1.35), "Lp p95": (1.05, 1.35)}
LIMITS: dict[str, dict[str, tuple[float, float]]] = {
    "costream": WIDE,
    "shared": {"T": (1.02, 1.10), "Le": (1.05, 1.40), "Lp": (1.05, 1.40)},
    "ordinary": WIDE,
}
"""Largest median and 95th percentile of the q-error, fast against exact, by family."""
FEW_KINDS = 3
"""Of queries: with more of them, too few configurations are left of a kind to part them by backpressure, too."""


def cell(errors: np.ndarray) -> str:
    """Median / 95th percentile / maximum."""
    if not len(errors):
        return "-"
    return f"{np.median(errors):.3f} / {np.quantile(errors, 0.95):.3f} / {errors.max():.2f}"


def error_table(found: Comparison) -> list[tuple[str, ...]]:
    """Header and rows: q-errors of the second exact seed and of fast, with the limits and whether they are kept."""
    return [_HEADER, *_quantity_rows(found), *_binary_rows(found)]


def length_table(found: Comparison) -> list[tuple[str, ...]]:
    """The same of quantities alone."""
    return [_HEADER, *_quantity_rows(found)]


def default_table(found: Comparison) -> list[tuple[str, ...]]:
    """The same as `error_table`, of runs that leave the fidelity to the simulator."""
    return [tuple(cell.replace("fast", "default") for cell in _HEADER), *error_table(found)[1:]]


_HEADER = ("quantity", "two exact seeds", "fast against exact", "fast against the mean of both", "limit", "kept")


def _quantity_rows(found: Comparison) -> list[tuple[str, ...]]:
    limits, rich = LIMITS[found.family], found.rich
    rows: list[tuple[str, ...]] = []
    for quantity in QUANTITIES:
        floor = q_errors(found.ratio(quantity, found.second)[rich])
        fast = q_errors(found.ratio(quantity, found.fast)[rich])
        both = q_errors(found.ratio_to_both(quantity)[rich])
        limit = limits.get(quantity)
        kept = "-"
        if limit and len(fast):
            kept = "yes" if np.median(fast) <= limit[0] and np.quantile(fast, 0.95) <= limit[1] else "**no**"
        words = f"{limit[0]:.2f} / {limit[1]:.2f}" if limit else "-"
        rows.append((quantity, cell(floor), cell(fast), cell(both), words, kept))
    return rows


def _binary_rows(found: Comparison) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    size = len(found.cases)
    for name, metric in (("RO", "backpressured"), ("S", "success")):
        least, count = (found.agreement(metric, runs) for runs in (found.second, found.fast))
        kept = "yes" if count >= least else "**no**"
        rows.append((f"{name} agrees", f"{least} of {size}", f"{count} of {size}", "", "two exact seeds", kept))
    silent = found.silently_far()
    words = ", ".join(map(str, silent[:6])) + (", ..." if len(silent) > 6 else "")
    name = f"off by more than a factor {FAR:g} without a warning"
    rows.append((name, "", f"{len(silent)} of {size}", words, "none", "**no**" if silent else "yes"))
    return rows


def bias_table(found: Comparison) -> list[tuple[str, ...]]:
    """Header and rows: geometric mean of fast over both exact runs' mean, and the 95th percentile of its q-error, by
    kind of query and by backpressure."""
    rows: list[tuple[str, ...]] = [("configurations", "how many", *(f"{name}" for name in QUANTITIES))]
    groups = {kind: found.kinds == kind for kind in dict.fromkeys(sorted(found.kinds, reverse=True))}
    pressed = {"keeps up": ~found.behind, "backpressured": found.behind}
    both = {f"{a}, {b}": groups[a] & pressed[b] for a in groups for b in pressed}
    masks = {**groups, **pressed, **(both if len(groups) <= FEW_KINDS else {})}
    for name, mask in masks.items():
        here = mask & found.rich
        cells = []
        for quantity in QUANTITIES:
            ratio = found.ratio_to_both(quantity)[here]
            ratio = ratio[np.isfinite(ratio)]
            cells.append(
                f"{np.exp(np.mean(np.log(ratio))):.3f} ({np.quantile(q_errors(ratio), 0.95):.2f})"
                if len(ratio)
                else "-"
            )
        rows.append((name, str(int(here.sum())), *cells))
    return rows


def worst_table(found: Comparison, rows: int = 12) -> list[tuple[str, ...]]:
    """Header and rows: the configurations in which fast is furthest off in any quantity, with the ratios fast / exact
    (two exact seeds in brackets)."""
    ratios = np.stack([found.ratio_to_both(quantity) for quantity in QUANTITIES], axis=1)
    furthest = np.where(found.rich, np.nanmax(np.abs(np.log(np.where(ratios > 0, ratios, np.nan))), axis=1), -1.0)
    order = np.argsort(-furthest)[:rows]
    seconds = {quantity: found.ratio(quantity, found.second) for quantity in QUANTITIES}
    table: list[tuple[str, ...]] = [("seed", "kind", "backpressured", "results", *QUANTITIES)]
    for index in order:
        if furthest[index] < 0:
            continue
        cells = [
            f"{ratios[index, column]:.2f} ({seconds[quantity][index]:.2f})"
            for column, quantity in enumerate(QUANTITIES)
        ]
        case = found.cases[index]
        behind = "yes" if found.behind[index] else "no"
        table.append((str(case.seed), case.kind, behind, str(found.exact[index]["tuples_out"]), *cells))
    return table
