"""Plain tables for benchmark output."""

from __future__ import annotations

from collections.abc import Sequence


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Prints a title and aligned columns; floats with four significant digits."""
    cells = [list(header), *([_text(value) for value in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    print(f"\n{title}")
    for row in cells:
        print("  " + "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))


def _text(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
