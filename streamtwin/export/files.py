"""A run in the formats of other programs: perfetto (one JSON file), csv and parquet (a folder of tables), metrics
(a folder of samples)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from scenarios.files.documents import as_csv
from scenarios.files.run_folder import KeptRun
from scenarios.files.traces import check_free, write_run
from streamtwin.export.metric_samples import files_of
from streamtwin.export.trace_events import trace_events
from twin.atomic import new_file, new_folder
from twin.errors import BadInput, suggest
from twin.trace import TABLES
from twin.version import VERSION

NOT_IN_TABLES = ("runs",)
"""A table of one row is no table for a spreadsheet; what it says is in result.json."""


def export(kept: KeptRun, form: str, out: Path) -> None:
    """Writes `out`, whole or not at all. Raises BadInput if it is there or cannot be written."""
    check_free(out)
    try:
        FORMATS[form][1](kept, out)
    except OSError as error:
        raise BadInput(f"{out} cannot be written: {error.strerror}; name another place with --out") from None


def check_format(form: str) -> None:
    """Raises BadInput, with the nearest, for an unknown format."""
    if form not in FORMATS:
        raise BadInput(f"--format {form}: unknown format; {suggest(form, FORMATS)}")


def default_place(name: str, form: str) -> Path:
    """The default place of an export."""
    return Path(f"{name}{FORMATS[form][0]}")


def _perfetto(kept: KeptRun, out: Path) -> None:
    """An event a line, so that long runs need no memory."""
    about = {"scenario": kept.name, "simulated": True, "streamtwin": VERSION, **kept.run.manifest}
    with new_file(out) as aside, aside.open("w", encoding="utf-8") as file:
        file.write('{"displayTimeUnit": "ms", "otherData": ' + json.dumps(about) + ', "traceEvents": [\n')
        for number, event in enumerate(trace_events(kept.run)):
            file.write((",\n" if number else "") + json.dumps(event, allow_nan=False))
        file.write("\n]}\n")


def _csv(kept: KeptRun, out: Path) -> None:
    """A file a table; lists within a cell are JSON."""
    rows = kept.run.rows(run="run-000000", name=kept.name, subtasks=True)
    with new_folder(out) as aside:
        for name in TABLES:
            if name not in NOT_IN_TABLES:
                table = as_csv(rows.get(name, ()), TABLES[name].names[1:])
                (aside / f"{name}.csv").write_text(table, encoding="utf-8", newline="")
        (aside / "result.json").write_text(json.dumps(kept.run.to_dict(), indent=2) + "\n", encoding="utf-8")


def _parquet(kept: KeptRun, out: Path) -> None:
    write_run(kept.run, kept.name, out)


def _metrics(kept: KeptRun, out: Path) -> None:
    """A file a period."""
    with new_folder(out) as aside:
        for name, text in files_of(kept.run):
            (aside / name).write_text(text, encoding="utf-8")


FORMATS: Mapping[str, tuple[str, Callable[[KeptRun, Path], None]]] = {
    "perfetto": (".perfetto.json", _perfetto),
    "csv": ("-csv", _csv),
    "parquet": ("-parquet", _parquet),
    "metrics": ("-metrics", _metrics),
}
"""By name: the ending of the default place, and the function that writes."""
