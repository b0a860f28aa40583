"""A real Flink on this machine as the judge of `twin import flink` and `twin calibrate`. Needs a JDK; 12 minutes a set.

    python -m benchmarks.real.live --out runs                 # installs Flink into a cache folder, measures, judges
    python -m benchmarks.real.live --out runs --jobs other    # one of the two sets of jobs
    python -m benchmarks.real.live --measured runs            # judges again what was measured

Jobs of several shapes and rates run one after the other on loopback, at low priority. Each is imported while it runs.
Two light operating points of a shape are calibrated on, and the others predicted. Then jobs fail and are rescaled.
A measurement that was cut short goes on where it was.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.real.live import judging
from benchmarks.real.live.measuring import FIRST, SETS, Jobs, Measured, Shape, measure, measure_event, read
from benchmarks.real.local import flink
from benchmarks.real.local.flink import Setup, running
from benchmarks.table import print_table
from scenarios.calibration.calibrate import own_cores
from scenarios.calibration.structures import beside
from twin.errors import BadInput
from twin.scenario import Scenario, put_all

SOURCE = Path(__file__).with_name("LiveJob.java")
SETUP = Setup(rest_port=18081, rpc_port=16123)


def measured(sets: Sequence[Jobs], out: Path) -> None:
    """Fills a folder with runs; those that are there already are kept. The first job only warms the cluster up."""
    shapes = [shape for jobs in sets for shape in (*jobs.shapes, *(each for each, _ in jobs.events))]
    asked = [(shape, rate) for shape in shapes for rate in shape.rates if not (out / shape.folder(rate)).exists()]
    if not asked:
        return
    jar, jars = flink.job_jar(SOURCE), flink.jars()
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as aside, running(jars, jar, Path(aside), SETUP) as cluster:
        first = FIRST.shapes[0]
        measure(cluster, first, first.fitted[0], Path(aside) / "first", warmup_s=1.0, window_s=2.0)
        for shape, rate in asked:
            print(f"{shape.name}, {rate:g}/s", flush=True)
            if shape.event:
                measure_event(cluster, shape, rate, out / shape.folder(rate))
            else:
                measure(cluster, shape, rate, out / shape.folder(rate))


def main() -> None:
    """Prints three tables for each set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="a new folder for what is measured")
    parser.add_argument("--measured", type=Path, help="a folder that was measured before; measures nothing")
    parser.add_argument("--jobs", choices=[*SETS, "both"], default="both", help="which of the sets")
    given = parser.parse_args()
    if (given.out is None) == (given.measured is None):
        parser.error("give either --out DIR, to measure, or --measured DIR")
    folder = given.out or given.measured
    sets = [jobs for name, jobs in SETS.items() if given.jobs in (name, "both")]
    try:
        if given.out is not None:
            measured(sets, folder)
        for jobs in sets:
            show(folder, jobs)
    except BadInput as error:
        parser.exit(2, f"{error}\n")


def show(folder: Path, jobs: Jobs) -> None:
    """Prints the tables of a measured set."""
    runs = {shape.name: [read(folder / shape.folder(rate)) for rate in shape.rates] for shape in jobs.shapes}
    lines = [
        line
        for shape in jobs.shapes
        for line in judging.judged(runs[shape.name][: len(shape.fitted)], runs[shape.name][len(shape.fitted) :])
    ]
    loads, cores = [each.load for found in runs.values() for each in found], lines[0].measured.cores
    machine = f"{cores} cores, shared: {min(loads):.0f} to {max(loads):.0f} processes wanted one meanwhile"
    header = ("job", "records/s", "", "delivered", "busiest", "p50", "p95")
    print_table(f"real Flink {flink.VERSION} ({machine}): measured / calibrated twin", header, judging.table(lines))
    header = ("calibrated", "wanted", "median error", "largest", "within")
    print_table("the points that were not calibrated on, beside what is wanted", header, judging.verdicts(lines))
    header = ("event", "no results, s", "oldest results, s", "made up for after, s", "results/s later")
    rows = []
    for shape, alike in jobs.events:
        run = read(folder / shape.folder(shape.rates[0]))
        rows.append(judging.row(shape, run, calibrated(shape, run, alike, runs[alike.name])))
    print_table("events: measured / simulated from what was read before", header, rows)


def calibrated(shape: Shape, run: Measured, alike: Shape, points: Sequence[Measured]) -> Scenario:
    """Job with the costs calibrated on the points of another one that does the same work, if their operators are the
    same; and with a core for each subtask, also for those that are added later, as work that sleeps takes none."""
    job = run.job.scenario
    if alike.shape == shape.shape:
        found = judging.calibrated(points[: len(alike.fitted)])
        job = found.applied(beside(job, found.others_percent))
    places = [(f"plan.placement.{name}", 2 * list(job.plan.placement[name])) for name in shape.slow]
    return job.model_copy(update={"cluster": own_cores(put_all(job, places, shape.name)).cluster})


if __name__ == "__main__":
    main()
