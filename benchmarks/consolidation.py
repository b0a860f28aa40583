"""What it takes to find the cheapest way to form all windows, and how many results are merged.

Run: python -m benchmarks.consolidation. Limit, by CPU time on one core: 5 ms a pane for a hundred window lengths.
"""

from __future__ import annotations

from time import process_time

from benchmarks.table import print_table
from papers.enorm.consolidation import CASES, formed
from twin.formations import naive


def row(name: str) -> list[object]:
    """Of one case."""
    panes = CASES[name][1]
    began_s = process_time()
    found = formed(name)
    took_s = process_time() - began_s
    merged, alone = sum(len(each.pieces) for each in found), sum(map(naive, found))
    return [name, panes, len(found), merged, alone, alone / merged, 1e6 * took_s / len(found), 1e6 * took_s / panes]


def main() -> None:
    """Prints the table."""
    header = ("windows", "panes", "formed", "merged", "of panes alone", "times", "us a window", "us a pane")
    print_table("Consolidation", header, [row(name) for name in CASES])


if __name__ == "__main__":
    main()
