"""Tables of results for people, however wide, and the words for single values in them."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from figures import units
from twin.quantities import written

if TYPE_CHECKING:
    from scenarios.planning.validation import Standing, ValidationRow
    from streamtwin.connect.importers.run_graph import ErrorSummary


# wide tables ---------------------------------------------------------------------------------------------------------
# Tables that lose no column: one that is too wide for a terminal goes on below, with its first columns again.


GAP = 3
"""Number of characters between two columns."""
HEADING = 12
"""Characters of the lines into which a heading is broken, if need be; more if a number below it is wider."""
WRAPPED = 24
"""Most characters that a column of text needs; longer text is broken into lines where there is no more room."""


@dataclass(frozen=True, slots=True)
class Column:
    """Column of a table. heading: its lines. cells: as shown. number: is right-aligned, and never broken into lines."""

    heading: tuple[str, ...]
    cells: tuple[str, ...]
    number: bool

    @property
    def least(self) -> int:
        """Least width (characters) at which the column can be read."""
        widest = max(map(len, [*self.heading, *self.cells]), default=0)
        if self.number:
            return widest
        words = [word for text in (*self.heading, *self.cells) for word in text.split()]
        return min(WRAPPED, widest) if not words else max(min(WRAPPED, widest), min(WRAPPED, max(map(len, words))))

    def broken(self) -> Column:
        """Column with its heading broken into lines."""
        most = max([HEADING, *map(len, self.cells)] if self.number else [HEADING])
        return replace(self, heading=tuple(textwrap.wrap(" ".join(self.heading), most)))


@dataclass(frozen=True, slots=True)
class Wide:
    """Table of columns under a title. The leading columns of text tell what a row is about, and are in every part."""

    title: str
    columns: tuple[Column, ...]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yields one table, or several below each other. The title may be wider than they are."""
        if self.title:
            yield Text(self.title, style="bold")
        for number, part in enumerate(parts(self.columns, options.max_width)):
            if number:
                yield ""
            yield _table(part)


def parts(columns: Sequence[Column], width: int) -> list[list[Column]]:
    """Columns in groups that fit, with headings in lines if need be; each has the leading ones and at least another."""
    if _needed(columns) <= width:
        return [list(columns)]
    broken = [column.broken() for column in columns]
    numbers = [index for index, column in enumerate(broken) if column.number]
    lead = max(1, numbers[0]) if numbers else 1
    groups = [broken[:lead]]
    for column in broken[lead:]:
        if len(groups[-1]) > lead and _needed([*groups[-1], column]) > width:
            groups.append(broken[:lead])
        groups[-1] = [*groups[-1], column]
    return groups


def _needed(columns: Sequence[Column]) -> int:
    return sum(column.least for column in columns) + GAP * (len(columns) - 1)


def _table(columns: Sequence[Column]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        heading, side = "\n".join(column.heading), "right" if column.number else "left"
        table.add_column(heading, justify=side, no_wrap=column.number, min_width=column.least)  # type: ignore[arg-type]
    for row in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*row)
    return table


# tables --------------------------------------------------------------------------------------------------------------
# Tables of results for people, and the words for single values in them.


NAMES_WIDE = 110
"""Most characters of a line of names."""


def of_rows(title: str, columns: Mapping[str, str], rows: Iterable[Mapping[str, Any]]) -> Wide:
    """Table with a line a row; `columns` maps a key of the rows to its heading. Numbers are right-aligned."""
    listed = list(rows)
    shown = []
    for key, heading in columns.items():
        values = [row.get(key) for row in listed]
        shown.append(Column((heading,), tuple(map(cell, values)), number=_numbers(values)))
    return Wide(title, tuple(shown))


def glossary(title: str, meanings: Mapping[str, str]) -> Table:
    """Table of names with their meanings, a line each."""
    table = Table(title=title, title_justify="left", title_style="bold", box=None, show_header=False, pad_edge=True)
    table.add_column("name", no_wrap=True)
    table.add_column("meaning")
    for name, meaning in meanings.items():
        table.add_row(name, meaning)
    return table


def names(parts: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Yields the names in each part, in columns that are as wide as the longest name."""
    for title, part in parts.items():
        wide = 2 + max(map(len, part), default=0)
        rows = "".join(f"{name:<{wide}}" for name in part)
        per_row = max(1, NAMES_WIDE // wide)
        lines = [rows[at : at + per_row * wide].rstrip() for at in range(0, len(rows), per_row * wide)]
        yield "\n".join([f"{title} ({len(part)})", *(f"  {line}" for line in lines)])


def of_regrets(rows: Sequence[ValidationRow]) -> list[Wide]:
    """Tables of regret, one a scenario."""
    columns = {
        "optimizer": "optimizer",
        "cost_model": "cost model",
        "predicted": "predicted",
        "off": "off",
        "simulated": "simulated",
        "regret": "regret",
        "state": "in the simulator",
        "plan_s": "planning",
    }
    names = dict.fromkeys(row.scenario for row in rows)
    return [
        of_rows(f"{name}: {rows[0].objective}", columns, (_regret_row(row) for row in rows if row.scenario == name))
        for name in names
    ]


def _regret_row(row: ValidationRow) -> dict[str, Any]:
    if row.regret is None:
        return {"optimizer": row.optimizer, "cost_model": row.cost_model, "state": row.message}
    show = cell if row.objective.endswith("per_s") else seconds
    state = "keeps up" if row.success and not row.backpressured else "does not keep up" if row.success else "fails"
    regret = f"{row.regret:+.1%}" if math.isfinite(row.regret) else "not comparable"
    return {
        **asdict(row),
        "predicted": show(row.predicted),
        "off": "" if row.beside is None else row.beside.off_short,
        "simulated": show(row.simulated) + (f" ± {show(row.ci95)}" if row.ci95 else ""),
        "regret": regret + (f" ± {row.regret_ci95:.1%}" if row.regret_ci95 else ""),
        "state": state,
        "plan_s": seconds(row.plan_s),
    }


def of_standings(rows: Sequence[Standing], title: str = "regret in the simulator, over all scenarios") -> Wide:
    """Table of standings, with a line an optimizer and cost model."""
    columns = {
        "optimizer": "optimizer",
        "cost_model": "cost model",
        "scenarios": "scenarios",
        "none": "no plan",
        "spoilt": "worse kind",
        "mean": "regret, mean",
        "median": "median",
        "p90": "90 %",
        "plan_s": "planning",
    }
    return of_rows(title, columns, map(_standing_row, rows))


def _standing_row(row: Standing) -> dict[str, Any]:
    regrets = {"mean": row.mean, "median": row.median, "p90": row.p90}
    shares = {name: "-" if regret is None else f"{regret:.1%}" for name, regret in regrets.items()}
    if row.ci95:
        shares["mean"] += f" ± {row.ci95:.1%}"
    return {**asdict(row), **shares, "none": row.refused + row.failed, "plan_s": seconds(row.plan_s)}


def of_strata(title: str, measures: Mapping[str, str], rows: Sequence[Mapping[str, Any]]) -> Wide:
    """Table with a line a metric and stratum that has runs; rows: of `models.evaluation`. Columns without values
    are left out, such as accuracies of few runs, and noise without replicates."""
    columns = {"metric": "metric", "stratum": "runs of", "rows": "runs", **measures}
    columns |= {"share": "share of the error", "noise_share": "of it noise", "pairs": "by pairs"}
    listed = [row for row in rows if row["rows"]]
    known = {key for key in columns if any(row[key] not in (None, 0) for row in listed)}
    return of_rows(title, {key: heading for key, heading in columns.items() if key in known}, listed)


def of_errors(title: str, groups: Mapping[str, ErrorSummary]) -> Wide:
    """Table of relative errors, with a line a group."""
    shares = {"median": "median", "p90": "90 %", "within_5_percent": "within 5 %"}
    columns = {"group": "of", "quantities": "values", **shares}
    rows = [
        {"group": name, **asdict(group), **{key: f"{getattr(group, key):.1%}" for key in shares}}
        for name, group in groups.items()
    ]
    return of_rows(title, columns, rows)


def places(where: Any) -> str:
    """Words for the places of an operator's subtasks in a plan: a place, a list of them, or counts by place."""
    if isinstance(where, Mapping):
        return ", ".join(f"{place} x {count}" if count > 1 else place for place, count in where.items())
    return where if isinstance(where, str) else ", ".join(where)


def seconds(value: float | None) -> str:
    """Duration in the unit that reads best; a dash if there is none."""
    return "-" if value is None or not math.isfinite(value) else units.seconds(value)


def _numbers(values: Sequence[Any]) -> bool:
    """Whether values are aligned as numbers: all of them are numbers, none or dashes, and not dashes alone."""
    said = [each for each in values if each is not None and each != "-"]
    return all(map(_numeric, said)) and (bool(said) or "-" not in values)


def _numeric(value: Any) -> bool:
    return isinstance(value, int | float) or str(value).lstrip("+-")[:1].isdigit()


def cell(value: Any) -> str:
    """Value for people: a dash for none, yes and no, numbers with three digits."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return number(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(cell, value))
    return str(value)


def number(value: float) -> str:
    """Number with three significant digits, thousands separated; whole numbers are written in full."""
    if not math.isfinite(value):
        return "-"
    if float(value).is_integer() or abs(value) >= 1000:
        return f"{value:,.0f}"
    return written(value)
