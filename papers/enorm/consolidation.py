"""Enorm, Section 6.1: numbers of partial results, and of keys, merged to form all windows, at least or from panes."""

from __future__ import annotations

from papers.interface import CaseTable, Experiment, Row, Rows, grid, shape
from papers.workspace import Workspace
from twin.windows import (
    EventWindow,
    Formation,
    Keys,
    Span,
    ending,
    expected_keys,
    formations,
    naive,
    one_each,
    panes_of,
)

HOUR = "paper: 5, 10, 15, 20"
CASES = {
    HOUR: ([(length, length) for length in (5, 10, 15, 20)], 60),
    "100 tumbling, 1 to 100": ([(length, length) for length in range(1, 101)], 1440),
    "100 overlapping, 5i every 5": ([(5 * number, 5) for number in range(1, 101)], 1440),
    "100 overlapping, i every 1": ([(length, 1) for length in range(1, 101)], 1440),
    "10 min to 24 h, panes of 10 min": ([(length, length) for length in (1, 3, 6, 36, 144)], 2880),
    "24 h every 10 min, panes of 1 min": ([(1440, 10)], 2880),
    "the same, and 10 min": ([(1440, 10), (10, 10)], 2880),
}
"""For each case, pairs (length, every) in panes, and the number of panes."""
KEYS, RECORDS_A_PANE = (10, 1_000, 100_000), 100.0


def formed(name: str, keys: Keys = one_each) -> list[Formation]:
    """Formations of all windows of a case, as they end."""
    lengths, panes = CASES[name]
    windows = [EventWindow(length_s=length, every_s=every) for length, every in lengths]
    grid, longest = panes_of(windows, 1), max(length for length, _ in lengths)
    return list(formations(lambda pane: ending(windows, grid, pane), 0, panes, longest, keys))


def pieces(_workspace: Workspace | None, windows: str) -> Row:
    """Row of the results that are merged. Nothing is random."""
    found = formed(windows)
    merged, alone = sum(len(formation.pieces) for formation in found), sum(map(naive, found))
    counted = {"panes": CASES[windows][1], "formed": len(found), "merged": merged, "alone": alone}
    return {**counted, "times": alone / merged}


def different_keys(_workspace: Workspace | None, keys: int) -> Row:
    """Row of the keys that are merged in the paper's hour, if there are `keys` different ones."""
    expected = expected_keys(keys, RECORDS_A_PANE)
    found = formed(HOUR, expected)
    merged = sum(expected(piece) for formation in found for piece in formation.pieces)
    alone = sum(formation.window.length * expected(Span(0, 1)) for formation in found)
    return {"merged": merged, "alone": alone, "times": alone / merged}


def shapes(rows: Rows) -> Rows:
    """Compares with the paper's example."""
    hour = next(row for row in rows if row["windows"] == HOUR)
    merged, alone = hour["merged"], hour["alone"]
    return [
        shape("results merged in an hour", "86 against 240", f"{merged} against {alone}", (merged, alone) == (86, 240))
    ]


CONSOLIDATION = Experiment(
    name="enorm.consolidation",
    source="Enorm, Fig. 8, Section 6.1",
    summary="partial results that are merged to form all windows",
    tables={
        "pieces": CaseTable(
            title="Results that are merged to form all windows",
            columns="""
                windows | panes | formed: windows formed | merged: results merged | alone: of panes alone |
                times: times as many | paper
            """,
            cases=grid(windows=CASES),
            measure=pieces,
            published={HOUR: "86 against 240"},
            by=("windows",),
            shapes=shapes,
        ),
        "keys": CaseTable(
            title="Keys that are merged in the paper's hour",
            columns="keys: different keys | merged: keys merged | alone: of panes alone | times: times as many",
            cases=grid(keys=KEYS),
            measure=different_keys,
        ),
    },
    notes=f"""
- Each window is formed the cheapest way there is, from panes and from windows that were formed before.
- In keys: the paper's hour, {RECORDS_A_PANE:g} records a pane of random keys. Where hardly any repeats, a longer window
  has as many as its parts, and nothing is saved; the paper counts each result as one.
""",
    about="Nothing here is measured or simulated: what is merged is counted.",
)
