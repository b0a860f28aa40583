"""Nexmark as Flink SQL on a real Flink on this machine, beside what the twin says of it. Needs a JDK.

    python -m benchmarks.real.nexmark --out runs                              # all queries, some four minutes each
    python -m benchmarks.real.nexmark --out runs --queries q0,q11 --quick     # some, with short windows
    python -m benchmarks.real.nexmark --out runs --events                     # then failures and rescalings, too
    python -m benchmarks.real.nexmark --measured runs                         # judges again what was measured
    python -m benchmarks.real.nexmark --measured runs --again                 # by what this version predicts

A query runs alone, in a task manager of its own, and its load rises by steps: 10 and 40 % of the events that it is
expected to bear, where it is imported as by `twin import flink`. It is calibrated on these two, and what the twin says
is written to a file. Then its knee is measured: it is offered twice what it is expected to bear, and five times that if
it keeps up.

With --events its task manager is killed, and it goes on from a savepoint with twice the subtasks, at the lightest load.

What was cut short goes on. Nothing else should run on the machine, or figures are of what it leaves.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from benchmarks.real.local import flink
from benchmarks.real.local.flink import Cluster, Setup, managing, working
from benchmarks.real.nexmark import events, judging, measuring
from benchmarks.real.nexmark.judging import FORM, Prediction, calibrated, predicted
from benchmarks.real.nexmark.measuring import Measured, Span, measure, read
from benchmarks.table import print_table
from figures.style import BLUE, FONT_PT, GREY, ORANGE, quiet
from twin.errors import BadInput
from twin.files import parse_json, write_text

# the figure ----------------------------------------------------------------------------------------------------------
# Draws what sources took beside what they were offered, and what the twin said beforehand.


ACROSS = 3
"""Panels beside each other."""
STEPS = 200


def knees(queries: Mapping[str, tuple[float | None, Sequence[Measured]]]) -> Figure:
    """Figure with a panel a query, by its name: the knee that was predicted (events/s; None: none), and all points."""
    down = math.ceil(len(queries) / ACROSS)
    figure = Figure(figsize=(2.9 * min(ACROSS, len(queries)), 2.5 * down + 0.3), layout="constrained", dpi=150)
    panels = figure.subplots(down, min(ACROSS, len(queries)), squeeze=False).ravel().tolist()
    for axes in panels[len(queries) :]:
        axes.set_axis_off()
    for axes, (name, (knee_per_s, points)) in zip(panels, queries.items(), strict=False):
        _panel(axes, name, knee_per_s, points)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False, fontsize=FONT_PT)
    figure.supxlabel("events offered a second", fontsize=FONT_PT + 1)
    figure.supylabel("events taken a second", fontsize=FONT_PT + 1)
    return figure


def _panel(axes: Axes, name: str, knee_per_s: float | None, points: Sequence[Measured]) -> None:
    quiet(axes)
    offered = [each.rate_per_s for each in points]
    low, high = 0.7 * min(offered), 1.4 * max(offered)
    rates = [low * (high / low) ** (step / STEPS) for step in range(STEPS + 1)]
    if knee_per_s is not None:
        axes.plot(rates, [min(each, knee_per_s) for each in rates], color=BLUE, label="predicted")
    for seen, marker, label in ((True, "s", "measured, calibrated on"), (False, "o", "measured afterwards")):
        some = [each for number, each in enumerate(points) if (number < 2) == seen]
        colour = GREY if seen else ORANGE
        taken = [each.delivered_per_s for each in some]
        axes.plot([each.rate_per_s for each in some], taken, marker, color=colour, label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_title(name, fontsize=FONT_PT + 1)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / 1000:,.0f}k"))
        axis.set_minor_formatter(NullFormatter())


# the command ---------------------------------------------------------------------------------------------------------


SOURCE = Path(__file__).with_name("Nexmark.java")
FACTORIES = ("Nexmark$SourceFactory", "Nexmark$SinkFactory")
LIGHT = (0.1, 0.4)
"""Loads that are calibrated on, as shares of the knee that is expected."""
BEYOND = (2.0, 5.0)
"""Loads at which the knee is measured, the second one only if the query keeps up with the first."""
USUAL, QUICK = Span(60.0, 15.0, 16.0), Span(20.0, 5.0, 10.0)
"""A Java machine compiles what a new job does for a minute, with more CPU than a light load takes. Windows over event
time last 10 s, and watermarks are 4 s late, so that first results come after some 15 s."""
SLOTS = 4
"""Slots of the task manager. Each has so much managed memory as Flink's windows of SQL need."""
PREDICTION, OF_EVENTS = "predicted.json", "events.json"


def setup(folder: Path) -> Setup:
    """Setup of the cluster: state in RocksDB, and buffers of Flink's own size. folder: for checkpoints."""
    settings = {
        "jobmanager.scheduler": "default",
        "taskmanager.numberOfTaskSlots": SLOTS,
        "taskmanager.memory.managed.size": "2g",
        "taskmanager.memory.segment-size": "32kb",
        "taskmanager.memory.task.heap.size": "9900m",
        "taskmanager.memory.jvm-metaspace.size": "256m",
        "state.backend.type": "rocksdb",
        "execution.checkpointing.storage": "filesystem",
        "execution.checkpointing.dir": folder.resolve().as_uri(),
        "execution.checkpointing.interval": "3 s",
    }
    return Setup(rest_port=18082, rpc_port=16124, heap=("600m", "10g"), settings=settings)


@dataclass(frozen=True, slots=True)
class Case:
    """Query with so many subtasks for each operator, and the folder of its points."""

    query: str
    parallelism: int
    folder: Path

    @property
    def name(self) -> str:
        """Its name in tables and folders."""
        return f"{self.query}-{self.parallelism}"

    def rates(self, loads: Sequence[float]) -> list[float]:
        """Events a second at shares of the knee that is expected."""
        return [load * measuring.query(self.query).knee_per_s for load in loads]

    def at(self, rate: float) -> Path:
        """Folder of the point at a rate."""
        return self.folder / f"{rate:.0f}"

    def said(self, again: bool = False) -> Prediction | None:
        """What was predicted, or is `again` by this version; None where nothing is, as it was refused."""
        written = parse_json((self.folder / PREDICTION).read_text(encoding="utf-8"))
        document = _said(self) if again else written
        return None if "refused" in document else FORM.validate_python(document)

    @property
    def light(self) -> list[Measured]:
        """Points that predictions rest on."""
        return [read(self.at(rate)) for rate in self.rates(LIGHT)]

    @property
    def with_events(self) -> bool:
        """Whether all events are predicted and measured."""
        return all((self.folder / each).exists() for each in (OF_EVENTS, *events.KINDS))

    @property
    def beyond(self) -> Measured | None:
        """The point of the knee: the first beyond it, or the last; None where it is not measured yet."""
        found = None
        for folder in (self.at(rate) for rate in self.rates(BEYOND)):
            if not folder.exists():
                return None
            found = read(folder)
            if judging.is_beyond(found):
                return found
        return found


def measured(cases: Sequence[Case], span: Span, with_events: bool = False) -> None:
    """Fills folders with points and predictions; those that are there already are kept. A query that is refused is
    named, and the next one follows."""
    known = [case for case in cases if (case.folder / PREDICTION).exists() and case.beyond is not None]
    if len(known) == len(cases) and (not with_events or all(case.with_events for case in cases)):
        return
    jar, jars = flink.job_jar(SOURCE, FACTORIES), flink.jars()
    with tempfile.TemporaryDirectory() as aside:
        folder = Path(aside)
        with managing(jars, jar, folder, setup(folder / "checkpoints")) as cluster:
            for case in cases:
                print(f"{case.name}: {measuring.query(case.query).says}", flush=True)
                try:
                    if case not in known:
                        with working(cluster):
                            _measure(cluster, case, span)
                    if with_events:
                        _measure_events(cluster, case)
                except BadInput as error:
                    print(f"{case.name} is left out: {error}", flush=True)


def _measure(cluster: Cluster, case: Case, span: Span) -> None:
    """All points of a query, begun anew. What its light loads foretell is written before the next load is read."""
    shutil.rmtree(case.folder, ignore_errors=True)
    light, beyond = case.rates(LIGHT), case.rates(BEYOND)

    def goes_on(rate: float) -> bool:
        if rate == light[-1]:
            write_text(case.folder / PREDICTION, json.dumps(_said(case), indent=1) + "\n")
        return rate in light or not judging.is_beyond(read(case.at(rate)))

    points = {rate: case.at(rate) for rate in (*light, *beyond)}
    measure(cluster, case.query, case.parallelism, points, span, goes_on)


def _measure_events(cluster: Cluster, case: Case) -> None:
    """Events at the lightest load, predicted first."""
    if not (case.folder / OF_EVENTS).exists():
        said = events.predicted(calibrated(case.light, case.light[0]))
        write_text(case.folder / OF_EVENTS, events.FORM.dump_json(said, indent=1).decode() + "\n")
    for kind in events.KINDS:
        if not (case.folder / kind).exists():
            print(f"  {kind}", flush=True)
            events.measure(cluster, case.query, case.rates(LIGHT)[0], case.parallelism, kind, case.folder / kind)


def _said(case: Case) -> dict[str, object]:
    """Prediction, or why there is none, as it is written."""
    try:
        return FORM.dump_python(predicted(case.light, measuring.query(case.query), case.rates(BEYOND)), mode="json")
    except BadInput as error:
        print(f"{case.name} is not predicted: {error}", flush=True)
        return {"refused": str(error)}


def show(cases: Sequence[Case], again: bool = False) -> None:
    """Prints a table for each query, and one of all knees. again: by what this version predicts from the same light
    loads, instead of by what was written down before the knees were measured."""
    knees, points = [], []
    for case in cases:
        if not (case.folder / PREDICTION).exists() or (knee := case.beyond) is None:
            print(f"{case.name}: not measured")
            continue
        light, said = case.light[0], case.said(again)
        points += [light, knee]
        if said is None:
            print(f"{case.name}: not predicted; {(case.folder / PREDICTION).read_text(encoding='utf-8').strip()}")
            continue
        rows = [*judging.figures(said, light, knee), *_of_events(case, again)]
        title = f"{case.name}: {measuring.query(case.query).says}"
        print_table(title, ("", "", "predicted", "measured", "error"), judging.table(rows))
        knees.append(judging.summary(case.name, rows, knee))
    if knees:
        loads = [each.load for each in points]
        machine = f"{points[0].cores} cores; {min(loads):.0f} to {max(loads):.0f} processes wanted one meanwhile"
        header = ("query", "predicted", "measured", "error", "busiest: predicted / measured", "collecting garbage")
        print_table(f"knees, events/s (Flink {flink.VERSION}, {machine})", header, knees)


def draw(cases: Sequence[Case], again: bool = False) -> Figure:
    """Figure of all cases that are measured. Raises BadInput if none is. again: as for `show`."""
    known = [each for each in cases if (each.folder / PREDICTION).exists() and each.beyond is not None]
    if not known:
        raise BadInput("--figure: no query is measured there")
    points = {
        each.name: [read(each.at(rate)) for rate in each.rates((*LIGHT, *BEYOND)) if each.at(rate).exists()]
        for each in known
    }
    said = {each.name: each.said(again) for each in known}
    return knees({name: (found and found.knee_per_s, points[name]) for name, found in said.items()})


def _of_events(case: Case, again: bool) -> Iterator[judging.Figure]:
    if not (case.folder / OF_EVENTS).exists():
        return
    written = events.FORM.validate_json((case.folder / OF_EVENTS).read_bytes())
    said = events.predicted(calibrated(case.light, case.light[0])) if again else written
    for kind in events.KINDS:
        if (case.folder / kind).exists():
            yield from events.figures(kind, said.get(kind), events.measured(case.folder / kind))


def main() -> None:
    """Measures, and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="a folder for what is measured")
    parser.add_argument("--measured", type=Path, help="a folder that was measured before; measures nothing")
    parser.add_argument("--queries", default=",".join(measuring.names()), help="default: all")
    parser.add_argument("--parallelism", default="1", help=f"subtasks of each operator, such as 1,2; {SLOTS} at most")
    parser.add_argument("--again", action="store_true", help="with --measured: by what this version predicts")
    parser.add_argument("--quick", action="store_true", help="short windows: to see that all works, not to publish")
    parser.add_argument("--events", action="store_true", help="failures and rescalings, too: 3 more minutes")
    parser.add_argument("--figure", type=Path, metavar="FILE", help="draws what was offered and taken, with --measured")
    given = parser.parse_args()
    if (given.out is None) == (given.measured is None):
        parser.error("give either --out DIR, to measure, or --measured DIR")
    if given.again and given.measured is None:
        parser.error("--again predicts anew from what was measured: give --measured DIR, too")
    try:
        cases = cases_of(given.out or given.measured, given.queries, given.parallelism)
        if given.out is not None:
            measured(cases, QUICK if given.quick else USUAL, given.events)
        show(cases, given.again)
        if given.figure is not None:
            draw(cases, given.again).savefig(given.figure)
    except BadInput as error:
        parser.exit(2, f"{error}\n")


def cases_of(folder: Path, asked: str, parallelism: str) -> list[Case]:
    """Cases that the options ask for. Raises BadInput for others."""
    numbers = []
    for text in parallelism.split(","):
        if not text.strip().isdigit() or not 1 <= int(text) <= SLOTS:
            raise BadInput(f"--parallelism {parallelism}: {text!r} is no number from 1 to {SLOTS}; write 1,2")
        numbers.append(int(text))
    names = [measuring.checked(name.strip()) for name in asked.split(",")]
    return [Case(name, number, folder / f"{name}-{number}") for name in names for number in numbers]


if __name__ == "__main__":
    main()
