"""What it takes to find the cheapest way to form all windows, and how many results are merged.

Run: python -m benchmarks.consolidation. Limit, by CPU time on one core: 5 ms a pane for a hundred window lengths.
"""

from __future__ import annotations

from time import process_time

from benchmarks.table import print_table
from twin.event_windows.consolidation import formations, naive
from twin.event_windows.panes import ending, panes_of
from twin.event_windows.window import EventWindow

CASES = {
    "paper: 5, 10, 15, 20": ([(length, length) for length in (5, 10, 15, 20)], 60),
    "100 tumbling, 1 to 100": ([(length, length) for length in range(1, 101)], 1440),
    "100 overlapping, 5i every 5": ([(5 * number, 5) for number in range(1, 101)], 1440),
    "100 overlapping, i every 1": ([(length, 1) for length in range(1, 101)], 1440),
    "10 min to 24 h, panes of 10 min": ([(length, length) for length in (1, 3, 6, 36, 144)], 2880),
    "24 h every 10 min, panes of 1 min": ([(1440, 10)], 2880),
    "the same, and 10 min": ([(1440, 10), (10, 10)], 2880),
}
"""(length, every) in panes, and panes in all."""


def row(name: str) -> list[object]:
    """Of one case."""
    lengths, panes = CASES[name]
    windows = [EventWindow(length_s=length, every_s=every) for length, every in lengths]
    grid, longest = panes_of(windows, 1), max(length for length, _ in lengths)
    began_s = process_time()
    found = list(formations(lambda pane: ending(windows, grid, pane), 0, panes, longest))
    took_s = process_time() - began_s
    merged, alone = sum(len(each.pieces) for each in found), sum(map(naive, found))
    return [name, panes, len(found), merged, alone, alone / merged, 1e6 * took_s / len(found), 1e6 * took_s / panes]


def main() -> None:
    """Prints the table."""
    header = ("windows", "panes", "formed", "merged", "of panes alone", "times", "us a window", "us a pane")
    print_table("Consolidation", header, [row(name) for name in CASES])


if __name__ == "__main__":
    main()
