"""Operating points of real jobs: a job is started in time, and kept as a folder that `twin import flink` reads."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.real.local.cluster import Cluster
from streamtwin.connect.importers.flink_answers import Answers
from twin.errors import BadInput
from twin.files import new_folder

AHEAD_S = (5.0, 10.0, 20.0)
"""Times from the submission to the first record; the next one is tried if the job did not run by then."""
ABOUT = "run.json"
"""File of a folder that describes the run."""


@contextlib.contextmanager
def kept(folder: Path, about: dict[str, Any]) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Folder to write to, and a description of the run; the folder gets its name only if the run is not cut short."""
    about = {**about, "cores": os.cpu_count()}
    with new_folder(folder) as aside:
        yield aside, about
        about["load"] = os.getloadavg()[0]
        (aside / ABOUT).write_text(json.dumps(about), encoding="utf-8")


def started(
    cluster: Cluster, options: Callable[[float], Mapping[str, object]], about: dict[str, Any]
) -> tuple[str, float]:
    """Starts a job. options: of its main program, given the time of its first record. Returns its id and that time (s
    since 1970), which is after it runs; `about` gets it, too, and the time of the submission."""
    for ahead_s in AHEAD_S:
        begun_s = time.time()
        start_s = int(1000 * (begun_s + ahead_s)) / 1000
        job = cluster.submit(**options(start_s))
        cluster.wait(job, "RUNNING")
        about |= {"submitted_s": time.time() - begun_s, "start_s": start_s}
        if time.time() < start_s:
            return job, start_s
        cluster.cancel(job)
    raise BadInput(f"a job takes more than {AHEAD_S[-1]:.0f} s to start; the machine is too busy to measure anything")


def write(folder: Path, answers: Answers) -> None:
    """Writes the answers about a job as `from_folder` reads them."""
    for name, answer in answers.saved().items():
        (folder / name).write_text(json.dumps(answer), encoding="utf-8")
