"""Tables: numbers stand under each other, and what nobody knows has no column."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from streamtwin.tables import tables
from streamtwin.tables.standing import value
from streamtwin.tables.wide import Wide


def lines(table: Wide) -> list[str]:
    console = Console(file=StringIO(), width=120)
    console.print(table)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_a_dash_among_numbers_stands_to_the_right() -> None:
    rows = [{"name": "milp", "regret": "+10.0%", "model": "-"}, {"name": "cola", "regret": "-", "model": "-"}]
    shown = lines(tables.of_rows("t", {"name": "name", "regret": "regret", "model": "cost model"}, rows))
    assert shown[-2].index("+10.0%") + len("+10.0%") == shown[-1].index("-") + 1
    assert shown[-1].rindex("-") == shown[1].index("cost model")


def test_a_title_may_be_wider_than_its_table() -> None:
    assert (
        lines(tables.of_rows("a title of many words", {"name": "name"}, [{"name": "x"}]))[0] == "a title of many words"
    )


def test_strata_without_runs_and_measures_without_values_are_left_out() -> None:
    row = {"metric": "T", "q50": 1.2, "accuracy": None, "share": 0.5, "noise_share": None, "pairs": 0}
    rows = [{**row, "stratum": "joins", "rows": 3}, {**row, "stratum": "no join", "rows": 0}]
    shown = "\n".join(lines(tables.of_strata("t", {"q50": "median", "accuracy": "accuracy"}, rows)))
    assert "joins" in shown and "0.5" in shown
    assert not any(absent in shown for absent in ("no join", "accuracy", "pairs", "noise"))


def test_a_standing_rate_reads_as_in_the_table() -> None:
    assert value(90_000.4, "throughput_per_s") == "90,000/s"
