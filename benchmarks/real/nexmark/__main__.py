"""Nexmark as Flink SQL on a real Flink on this machine, beside what the twin says of it. Needs a JDK.

    python -m benchmarks.real.nexmark --out runs                              # all queries, some four minutes each
    python -m benchmarks.real.nexmark --out runs --queries q0,q11 --quick     # some, with short windows
    python -m benchmarks.real.nexmark --measured runs                         # judges again what was measured

A query runs alone, in a task manager of its own: at 10 and 40 % of the events that it is expected to bear, and imported
there as by `twin import flink`. It is calibrated on these two, and what the twin says is written to a file. Then its
knee is measured: it is offered twice what it is expected to bear, and twice that again as long as it keeps up.

What was cut short goes on. Nothing else should run on the machine, or figures are of what it leaves.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.real.local import installed
from benchmarks.real.local.cluster import Cluster, Setup, managing, working
from benchmarks.real.nexmark import judging, queries
from benchmarks.real.nexmark.measuring import Measured, Span, measure, read
from benchmarks.real.nexmark.predicting import FORM, Prediction, predicted
from benchmarks.table import print_table
from twin.errors import BadInput
from twin.files import parse_json, write_text

SOURCE = Path(__file__).with_name("Nexmark.java")
FACTORIES = ("Nexmark$SourceFactory", "Nexmark$SinkFactory")
LIGHT = (0.1, 0.4)
"""Loads that are calibrated on, as shares of the knee that is expected."""
BEYOND = (2.0, 4.0, 8.0)
"""Loads at which the knee is measured, one after the other as long as the query keeps up."""
USUAL, QUICK = Span(warmup_s=35.0, window_s=20.0), Span(warmup_s=18.0, window_s=10.0)
"""Windows over event time last 10 s, and watermarks are 4 s late, so that first results come after some 15 s."""
SLOTS = 4
"""Slots of the task manager. Each has so much managed memory as Flink's windows of SQL need."""
PREDICTION = "predicted.json"


def setup(folder: Path) -> Setup:
    """Setup of the cluster: a heap for state that grows, and buffers of Flink's own size. folder: for checkpoints."""
    settings = {
        "jobmanager.scheduler": "default",
        "taskmanager.numberOfTaskSlots": SLOTS,
        "taskmanager.memory.managed.size": "256m",
        "taskmanager.memory.segment-size": "32kb",
        "taskmanager.memory.task.heap.size": "2900m",
        "taskmanager.memory.jvm-metaspace.size": "256m",
        "execution.checkpointing.storage": "filesystem",
        "execution.checkpointing.dir": folder.resolve().as_uri(),
        "execution.checkpointing.interval": "3 s",
    }
    return Setup(rest_port=18082, rpc_port=16124, heap=("600m", "3g"), settings=settings)


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
        return [load * queries.query(self.query).knee_per_s for load in loads]

    def at(self, rate: float) -> Path:
        """Folder of the point at a rate."""
        return self.folder / f"{rate:.0f}"

    @property
    def said(self) -> Prediction | None:
        """What was predicted; None where nothing is, as it was refused."""
        document = parse_json((self.folder / PREDICTION).read_text(encoding="utf-8"))
        return None if "refused" in document else FORM.validate_python(document)

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


def measured(cases: Sequence[Case], span: Span) -> None:
    """Fills folders with points and predictions; those that are there already are kept. A query that is refused is
    named, and the next one follows."""
    asked = [case for case in cases if not (case.folder / PREDICTION).exists() or case.beyond is None]
    if not asked:
        return
    jar, jars = installed.job_jar(SOURCE, FACTORIES), installed.jars()
    with tempfile.TemporaryDirectory() as aside:
        folder = Path(aside)
        with managing(jars, jar, folder, setup(folder / "checkpoints")) as cluster:
            for case in asked:
                print(f"{case.name}: {queries.query(case.query).says}", flush=True)
                with working(cluster):
                    try:
                        _measure(cluster, case, span)
                    except BadInput as error:
                        print(f"{case.name} is left out: {error}", flush=True)


def _measure(cluster: Cluster, case: Case, span: Span) -> None:
    def at(rate: float) -> Measured:
        if not case.at(rate).exists():
            print(f"  {rate:,.0f}/s", flush=True)
            measure(cluster, case.query, rate, case.parallelism, case.at(rate), span)
        return read(case.at(rate))

    light = [at(rate) for rate in case.rates(LIGHT)]
    if not (case.folder / PREDICTION).exists():
        write_text(case.folder / PREDICTION, json.dumps(_said(case, light), indent=1) + "\n")
    for rate in case.rates(BEYOND):
        if judging.is_beyond(at(rate)):
            return


def _said(case: Case, light: Sequence[Measured]) -> dict[str, object]:
    try:
        return FORM.dump_python(predicted(light, queries.query(case.query), case.rates(BEYOND)), mode="json")
    except BadInput as error:
        print(f"{case.name} is not predicted: {error}", flush=True)
        return {"refused": str(error)}


def show(cases: Sequence[Case]) -> None:
    """Prints a table for each query, and one of all knees."""
    knees, points = [], []
    for case in cases:
        if not (case.folder / PREDICTION).exists() or (knee := case.beyond) is None:
            print(f"{case.name}: not measured")
            continue
        light, said = read(case.at(case.rates(LIGHT)[0])), case.said
        points += [light, knee]
        if said is None:
            print(f"{case.name}: not predicted; {(case.folder / PREDICTION).read_text(encoding='utf-8').strip()}")
            continue
        rows = judging.figures(said, light, knee)
        title = f"{case.name}: {queries.query(case.query).says}"
        print_table(title, ("", "", "predicted", "measured", "error"), judging.table(rows))
        knees.append(judging.summary(case.name, rows, knee))
    if knees:
        loads = [each.load for each in points]
        machine = f"{points[0].cores} cores; {min(loads):.0f} to {max(loads):.0f} processes wanted one meanwhile"
        header = ("query", "predicted", "measured", "error", "busiest: predicted / measured", "collecting garbage")
        print_table(f"knees, events/s (Flink {installed.VERSION}, {machine})", header, knees)


def main() -> None:
    """Measures, and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="a folder for what is measured")
    parser.add_argument("--measured", type=Path, help="a folder that was measured before; measures nothing")
    parser.add_argument("--queries", default=",".join(queries.names()), help="default: all")
    parser.add_argument("--parallelism", default="1", help=f"subtasks of each operator, such as 1,2; {SLOTS} at most")
    parser.add_argument("--quick", action="store_true", help="short windows: to see that all works, not to publish")
    given = parser.parse_args()
    if (given.out is None) == (given.measured is None):
        parser.error("give either --out DIR, to measure, or --measured DIR")
    try:
        cases = cases_of(given.out or given.measured, given.queries, given.parallelism)
        if given.out is not None:
            measured(cases, QUICK if given.quick else USUAL)
        show(cases)
    except BadInput as error:
        parser.exit(2, f"{error}\n")


def cases_of(folder: Path, asked: str, parallelism: str) -> list[Case]:
    """Cases that the options ask for. Raises BadInput for others."""
    numbers = []
    for text in parallelism.split(","):
        if not text.strip().isdigit() or not 1 <= int(text) <= SLOTS:
            raise BadInput(f"--parallelism {parallelism}: {text!r} is no number from 1 to {SLOTS}; write 1,2")
        numbers.append(int(text))
    names = [queries.checked(name.strip()) for name in asked.split(",")]
    return [Case(name, number, folder / f"{name}-{number}") for name in names for number in numbers]


if __name__ == "__main__":
    main()
