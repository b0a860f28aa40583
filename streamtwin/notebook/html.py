"""Text that a notebook shows as HTML."""

from __future__ import annotations

from figures.job_map import job_map
from figures.svg import element, text
from streamtwin.report.page import scrolling
from streamtwin.tables.job_maps import drawn
from twin.deployment import Deployment
from twin.run import Run


class Html(str):
    """HTML, as text elsewhere."""

    def __repr__(self) -> str:
        return f"<HTML of {len(self):,} characters>"

    def _repr_html_(self) -> str:
        return str(self)


def picture(scenario: Deployment, run: Run | None = None) -> Html:
    """A query on its hosts, coloured by a run if there is one; many operators are drawn in groups, and that is said."""
    shown, told = drawn(scenario, run)
    return Html(scrolling(job_map(shown)) + (element("p", text(told)) if told else ""))
