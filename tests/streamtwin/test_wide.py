"""No table loses a column, however narrow the terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from streamtwin.tables.tables import of_rows

COLUMNS = {
    "application": "application",
    "operator": "operator",
    "server": "server",
    **{f"n{k}": f"quantity number {k} of the published ones (tuples a second)" for k in range(9)},
}
ROWS = [
    {"application": name, "operator": "splitter", "server": "A", **{f"n{k}": 1000.5 * k + 1 for k in range(9)}}
    for name in ("WC", "FD")
]


def shown(width: int, columns: dict[str, str] = COLUMNS, rows: list[dict[str, object]] = ROWS) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(of_rows("title", columns, rows))
    return console.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200, 1000])
def test_every_value_is_there_with_what_its_row_is_about(width: int) -> None:
    text = shown(width)
    assert max(map(len, text.splitlines())) <= width
    for k in range(9):
        assert text.count(f"{1000.5 * k + 1:,.0f}" if k else "1") >= len(ROWS)
    tables = text.count("application")
    assert text.count("splitter") == tables * len(ROWS) and text.count("WC") == tables
    assert (tables == 1) == (width >= 200)
    assert "…" not in text
    for word in ("quantity", "number", "published", "(tuples", "second)"):
        assert text.count(word) >= 9


def test_a_table_that_fits_is_one_with_headings_in_a_line() -> None:
    text = shown(80, {"a": "what it is", "b": "how many of these there are"}, [{"a": "a word or two", "b": 3}])
    assert "how many of these there are" in text


def test_long_text_is_broken_into_lines_and_kept() -> None:
    words = "one after the other " * 12
    text = shown(60, {"name": "name", "n": "n", "why": "why"}, [{"name": "x", "n": 1, "why": words}])
    assert " ".join(text.split()).count("other") == 12


def test_a_table_without_rows_or_numbers_is_drawn() -> None:
    assert "name" in shown(80, {"name": "name", "n": "n"}, [])
    assert "b" in shown(80, {"name": "name", "other": "other"}, [{"name": "a", "other": "b"}])
