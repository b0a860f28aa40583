"""A run as people and programs look at it: sentences, data frames, pictures, files."""

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
    """One simulated run. name: of the scenario; job: what was run; run: all that it gave."""

    name: str
    job: Deployment
    run: Run

    @property
    def metrics(self) -> Metrics:
        """Throughput, latencies, backpressure, success."""
        return self.run.metrics

    @property
    def verdict(self) -> str:
        """Whether the job keeps up, and what the bottleneck is, in sentences."""
        return verdict(self.job, self.run)

    @property
    def keeps_up(self) -> bool:
        """Whether results came, no tuples stayed unread, and no queue grew to the end."""
        return self.metrics.keeps_up

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader should know besides."""
        return self.run.warnings

    @property
    def operators(self) -> DataFrame:
        """A line an operator, after the warm-up: rates, and shares of time busy, backpressured, idle."""
        return frame(self.run.operators, "operator").drop(columns="subtasks")

    @property
    def subtasks(self) -> DataFrame:
        """A line for each operator and subtask: the same columns, its host and socket, and its queue."""
        return frame(
            {"operator": operator.operator, **asdict(subtask)}
            for operator in self.run.operators
            for subtask in operator.subtasks
        )

    @property
    def hosts(self) -> DataFrame:
        """A line a host: CPU in use, memory, what it sent."""
        return frame(self.run.hosts, "host")

    @property
    def links(self) -> DataFrame:
        """A line a network card, or direction of a link, that carried anything."""
        return frame(self.run.links, "link")

    @property
    def events(self) -> DataFrame:
        """A line a change of the running job, in order; empty if there was none."""
        from pandas import DataFrame

        return DataFrame(list(self.run.event_rows), columns=EVENTS.names[1:])

    def periods(self, table: Table = "operators") -> DataFrame:
        """A line a component and period of statistics; columns are those of `twin.trace`. Raises BadInput."""
        run = self.run
        rows = {"operators": run.operator_rows, "subtasks": run.subtask_rows, "hosts": run.host_rows}
        rows |= {"links": run.link_rows}
        if table not in rows:
            raise BadInput(f"periods({table!r}): {suggest(str(table), rows)}")
        return frame(rows[table])

    def over_time(self) -> DataFrame:
        """Rates, queues, latency quantiles and busy shares, by the second in which a period ends; columns (quantity,
        series). Queues are those at the end of the period; all else is over the whole period."""
        from pandas import DataFrame, Index

        shown = panels(self.run)
        parts = {(panel.title, name): line for panel in shown for name, line in panel.series.items()}
        at_s = next(panel.at_s for panel in shown if panel.levels)
        return DataFrame(parts, index=Index(at_s, name="at_s"), dtype=float)

    @property
    def picture(self) -> Html:
        """The query on its hosts, coloured by how busy operators were."""
        return picture(self.job, self.run)

    @property
    def timelines(self) -> Html:
        """`over_time` drawn."""
        return Html(element("div", *(time_line(panel) for panel in panels(self.run)), style="max-width: 82rem"))

    def figure(self) -> Figure:
        """`over_time` drawn by Matplotlib, for print."""
        from figures.run_panels import run_panels

        return run_panels(panels(self.run))

    def report(self, file: str | Path) -> Path:
        """Writes the page of `twin report`. Raises BadInput if the file is there and is no report."""
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

    progress: told (done, total) periods. Raises BadInput for what cannot be.
    """
    wanted = load(scenario) if isinstance(scenario, str) else scenario
    wanted = wanted.with_run(**settings) if settings else wanted
    return Result(wanted.name, wanted, simulate(wanted, progress=progress))


def read_run(folder: str | Path) -> Result:
    """The run in a folder that `twin run --out` or `Result.save` wrote. Raises BadInput if it holds none."""
    return Result(*read_kept(Path(folder)))
