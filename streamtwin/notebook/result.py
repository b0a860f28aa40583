"""Result of a run for people and programs: sentences, data frames, pictures, files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from figures.svg import element
from figures.time_line import time_line
from scenarios.files.run_folder import read_run as read_kept
from scenarios.files.scenario_file import load
from scenarios.files.traces import write_run
from streamtwin.notebook.shown import Html, frame, picture
from streamtwin.report.page import check_ours, paragraph, tables
from streamtwin.report.pages import run_page, shortened
from streamtwin.report.verdict import verdict
from streamtwin.tables import run_tables
from streamtwin.tables.timelines import panels
from twin.atomic import write_text
from twin.deployment import Deployment
from twin.errors import BadInput, suggest
from twin.metrics import Metrics
from twin.run import Run
from twin.scenario import Scenario
from twin.simulation import simulate
from twin.trace import EVENTS

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

Table = Literal["operators", "subtasks", "hosts", "links"]


@dataclass(frozen=True, slots=True)
class Result:
    """Result of one simulated run. name: of the scenario. job: the job that was run. run: all of its results."""

    name: str
    job: Deployment
    run: Run

    @property
    def metrics(self) -> Metrics:
        """Metrics of the run: throughput, latencies, backpressure, success."""
        return self.run.metrics

    @property
    def verdict(self) -> str:
        """Sentences on whether the job keeps up, and on the bottleneck."""
        return verdict(self.job, self.run)

    @property
    def keeps_up(self) -> bool:
        """Whether results came, no tuples stayed unread, and no queue grew to the end."""
        return self.metrics.keeps_up

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings of the run."""
        return self.run.warnings

    @property
    def operators(self) -> DataFrame:
        """Data frame with a line an operator, after the warm-up: rates, shares of time busy, backpressured, idle."""
        return frame(self.run.operators, "operator").drop(columns="subtasks")

    @property
    def subtasks(self) -> DataFrame:
        """Data frame with a line a subtask of each operator: the columns of `operators`, host and socket, and queue."""
        return frame(
            {"operator": operator.operator, **asdict(subtask)}
            for operator in self.run.operators
            for subtask in operator.subtasks
        )

    @property
    def hosts(self) -> DataFrame:
        """Data frame with a line a host: CPU in use, memory, bytes sent."""
        return frame(self.run.hosts, "host")

    @property
    def links(self) -> DataFrame:
        """Data frame with a line a network card, or direction of a link, that carried anything."""
        return frame(self.run.links, "link")

    @property
    def events(self) -> DataFrame:
        """Data frame with a line a change of the running job, in order; empty if there was none."""
        from pandas import DataFrame

        return DataFrame(list(self.run.event_rows), columns=EVENTS.names[1:])

    def periods(self, table: Table = "operators") -> DataFrame:
        """Data frame with a line a component and period of statistics; columns are those of `twin.trace`. Raises
        BadInput for an unknown table."""
        run = self.run
        rows = {"operators": run.operator_rows, "subtasks": run.subtask_rows, "hosts": run.host_rows}
        rows |= {"links": run.link_rows}
        if table not in rows:
            raise BadInput(f"periods({table!r}): {suggest(str(table), rows)}")
        return frame(rows[table])

    def over_time(self) -> DataFrame:
        """Data frame of rates, queues, latency quantiles and busy shares, by the second in which a period ends; columns
        (quantity, series). Queues are those at the end of the period; all else is over the whole period."""
        from pandas import DataFrame, Index

        shown = panels(self.run)
        parts = {(panel.title, name): line for panel in shown for name, line in panel.series.items()}
        at_s = next(panel.at_s for panel in shown if panel.levels)
        return DataFrame(parts, index=Index(at_s, name="at_s"), dtype=float)

    @property
    def picture(self) -> Html:
        """Drawing of the query on its hosts, coloured by the utilisation of operators."""
        return picture(self.job, self.run)

    @property
    def timelines(self) -> Html:
        """Time-lines of `over_time`, drawn in HTML."""
        return Html(element("div", *(time_line(panel) for panel in panels(self.run)), style="max-width: 82rem"))

    def figure(self) -> Figure:
        """Figure of `over_time` by Matplotlib, for print."""
        from figures.run_panels import run_panels

        return run_panels(panels(self.run))

    def report(self, file: str | Path) -> Path:
        """Writes the page of `twin report`. Raises BadInput if the file exists and is no report."""
        check_ours(Path(file))
        write_text(Path(file), run_page(self.name, self.job, self.run))
        return Path(file)

    def save(self, folder: str | Path) -> Path:
        """Writes the folder of `twin run --out`, from which `read_run` reads it. Raises BadInput if it exists."""
        write_run(self.run, self.name, Path(folder))
        return Path(folder)

    def __repr__(self) -> str:
        return f"<Result of {self.name}: {self.verdict}>"

    def _repr_html_(self) -> str:
        shown = tables(run_tables.of_run(self.name, shortened(self.run)[0])[:1])
        return "".join((paragraph(self.verdict), self.picture, *shown))


def run(scenario: Scenario | str, *, progress: Callable[[int, int], None] | None = None, **settings: Any) -> Result:
    """Simulates a scenario, or the one of that library name or file, under other run settings such as `horizon_s=60`.

    progress: called with (done, total) periods. Raises BadInput for a scenario or settings that are not valid.
    """
    wanted = load(scenario) if isinstance(scenario, str) else scenario
    wanted = wanted.with_run(**settings) if settings else wanted
    return Result(wanted.name, wanted, simulate(wanted, progress=progress))


def read_run(folder: str | Path) -> Result:
    """Reads the run in a folder that `twin run --out` or `Result.save` wrote. Raises BadInput if it holds none."""
    return Result(*read_kept(Path(folder)))
