"""A real Flink on this machine as the judge of `twin import flink` and `twin calibrate`. Needs a JDK; about 12 minutes.

    python -m benchmarks.real.live --out runs          # installs Flink into a cache folder, measures, judges
    python -m benchmarks.real.live --measured runs     # judges again what was measured

Two dozen jobs of several shapes and rates run one after the other on loopback, at low priority. Each is imported while
it runs. Half of the operating points of a shape are calibrated on, and the others predicted. Then a job fails, and one
is rescaled.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.real.live import installed, judging
from benchmarks.real.live.cluster import running
from benchmarks.real.live.events import table
from benchmarks.real.live.jobs import FAILS, RESCALED, SAME_WORK, SHAPES, Shape
from benchmarks.real.live.measuring import measure, measure_event, read
from benchmarks.table import print_table
from twin.errors import BadInput


def points(shape: Shape) -> Iterator[tuple[float, str]]:
    """Rates, and the folder that each is kept in."""
    for rate in (*shape.fitted, *shape.predicted):
        yield rate, f"{shape.name.replace(', ', '-').replace(' ', '-')}-{rate:g}"


def measured(out: Path, cache: Path, warmup_s: float, window_s: float) -> None:
    """Fills a folder; what is there already is kept. The first job only warms the cluster up."""
    jar = installed.job_jar(cache)
    out.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as aside,
        running(installed.jars(cache), jar, Path(aside), 18081, 16123) as cluster,
    ):
        measure(cluster, SHAPES[0], SHAPES[0].fitted[0], Path(aside) / "first", warmup_s=1.0, window_s=2.0)
        for shape in (*SHAPES, FAILS, RESCALED):
            for rate, name in points(shape):
                if (out / name).exists():
                    continue
                print(f"{shape.name}, {rate:g}/s", flush=True)
                if shape in SHAPES:
                    measure(cluster, shape, rate, out / name, warmup_s, window_s)
                else:
                    measure_event(cluster, shape, rate, out / name)


def main() -> None:
    """Prints three tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="a new folder for what is measured")
    parser.add_argument("--measured", type=Path, help="a folder that was measured before; measures nothing")
    parser.add_argument("--cache", type=Path, default=installed.cache(), help="where Flink is installed")
    parser.add_argument("--warmup", type=float, default=10.0, help="s before each window")
    parser.add_argument("--window", type=float, default=8.0, help="s that each job is read for")
    given = parser.parse_args()
    if (given.out is None) == (given.measured is None):
        parser.error("give either --out DIR, to measure, or --measured DIR")
    folder = given.out or given.measured
    try:
        if given.out is not None:
            measured(folder, given.cache, given.warmup, given.window)
        show(folder)
    except BadInput as error:
        parser.exit(2, f"{error}\n")


def show(folder: Path) -> None:
    """The tables of what was measured."""
    lines, loads = [], []
    for shape in SHAPES:
        runs = [read(folder / name) for _, name in points(shape)]
        loads += [each.load for each in runs]
        lines += judging.judged(runs[: len(shape.fitted)], runs[len(shape.fitted) :])
    machine = f"{runs[0].cores} cores, shared: {min(loads):.0f} to {max(loads):.0f} processes wanted one meanwhile"
    header = ("job", "records/s", "", "delivered", "busiest", "source held", "latency", "markers")
    print_table(f"real Flink {installed.VERSION} ({machine}): measured / calibrated twin", header, judging.table(lines))
    header = ("predictor", "keeps up", "delivered", "busiest, points", "held, points", "latency, q", "markers, q")
    print_table("the points that were not calibrated on: median/largest error", header, judging.summary(lines))
    fails, rescaled = (read(folder / name) for shape in (FAILS, RESCALED) for _, name in points(shape))
    alike = [read(folder / name) for _, name in points(SAME_WORK)][: len(SAME_WORK.fitted)]
    waits = judging.calibrated(alike).structure.own_cores
    header = ("event", "no results for", "oldest results", "made up for after")
    print_table("events: measured / simulated from what was read before", header, table(fails, rescaled, waits))


if __name__ == "__main__":
    main()
