"""An answer in Python: a data frame, sentences, and the document that the command prints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scenarios.files.documents import document
from streamtwin.answers.presentation import Presentation
from streamtwin.notebook.frames import frame
from streamtwin.report.page import paragraph, tables

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a question. result: what the command of that name gives; told: how that is shown."""

    result: Any
    told: Presentation

    @property
    def document(self) -> Mapping[str, Any]:
        """What the command prints with --json."""
        return document(self.result)

    @property
    def frame(self) -> DataFrame:
        """What the command writes as table.csv: of variants a line a metric, with intervals, differences and words."""
        return frame(self.told.rows)

    @property
    def sentences(self) -> list[str]:
        """The answer in words."""
        return list(self.told.sentences)

    @property
    def warnings(self) -> list[str]:
        """What a reader should know besides."""
        return list(self.told.notes)

    def __repr__(self) -> str:
        return f"<Answer: {' '.join(self.sentences)}>"

    def _repr_html_(self) -> str:
        return "".join((*map(paragraph, self.sentences), *tables(self.told.tables)))
