"""Objects that a notebook shows: rows as data frames, pictures, and answers (a frame, sentences, a document)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from figures.job_map import job_map
from figures.svg import element, text
from scenarios.files.documents import document
from streamtwin.answers.presentation import Presentation
from streamtwin.report.page import paragraph, scrolling, tables
from streamtwin.tables.job_maps import drawn
from twin.deployment import Deployment
from twin.run import Run

if TYPE_CHECKING:
    from pandas import DataFrame


def frame(rows: Iterable[Any], index: str | None = None) -> DataFrame:
    """Data frame with a line a row. rows: mappings, or dataclasses such as those of `validate`. index: the column that

    names the rows. Raises KeyError if there is no such column.
    """
    from pandas import DataFrame

    made = DataFrame(list(rows))
    return made if index is None or not len(made) else made.set_index(index)


class Html(str):
    """HTML that a notebook shows; elsewhere it is text."""

    def __repr__(self) -> str:
        return f"<HTML of {len(self):,} characters>"

    def _repr_html_(self) -> str:
        return str(self)


def picture(scenario: Deployment, run: Run | None = None) -> Html:
    """Drawing of a query on its hosts, coloured by a run if there is one; many operators are drawn in groups, with a
    note."""
    shown, told = drawn(scenario, run)
    return Html(scrolling(job_map(shown)) + (element("p", text(told)) if told else ""))


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer to a question. result: of the type that the command gives. told: its presentation."""

    result: Any
    told: Presentation

    @property
    def document(self) -> Mapping[str, Any]:
        """Document that the command prints with --json."""
        return document(self.result)

    @property
    def frame(self) -> DataFrame:
        """Data frame of the command's table.csv; for variants a line a metric, with intervals, changes and words."""
        return frame(self.told.rows)

    @property
    def sentences(self) -> list[str]:
        """Answer in words; the first sentence says most."""
        return list(self.told.sentences)

    @property
    def warnings(self) -> list[str]:
        """Warnings and other notes on the answer."""
        return list(self.told.notes)

    def __repr__(self) -> str:
        return f"<Answer: {' '.join(self.sentences)}>"

    def _repr_html_(self) -> str:
        return "".join((*map(paragraph, self.sentences), *tables(self.told.tables)))
