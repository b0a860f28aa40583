"""Folders of runs, as `twin run --out` writes them."""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import optimizers.policies  # noqa: F401  # so that what is read can name one
from twin import files
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.files import new_folder, parse_json, seal
from twin.metrics import StandardErrors, from_sources
from twin.run import Run, host_totals, link_totals, metrics_of, operator_totals
from twin.spec import parse
from twin.steadiness import full, queue_growth_per_s
from twin.trace import damage, read_table
from twin.world.meters import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# pictures ------------------------------------------------------------------------------------------------------------
# Encodes figures as picture files.


def png(figure: Figure) -> bytes:
    """PNG of a figure; the same figure gives the same bytes."""
    return picture(figure, Path("figure.png"))


def picture(figure: Figure, file: Path) -> bytes:
    """Picture of a figure in the format of the file's ending; the same figure gives the same bytes."""
    form, buffer = file.suffix[1:].lower(), io.BytesIO()
    figure.savefig(buffer, format=form, metadata=FORMATS[form])
    return buffer.getvalue()


def check_picture(file: Path) -> None:
    """Raises BadInput if a file has no ending of a picture, or as `check_file` does."""
    if file.suffix[1:].lower() not in FORMATS:
        raise BadInput(f"{file}: a picture ends in one of {', '.join(f'.{each}' for each in FORMATS)}")
    check_file(file)


FORMATS: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "pdf": {"Creator": None, "Producer": None, "CreationDate": None},
    "svg": {"Date": None},
}
"""Formats by ending, with the metadata to leave out because they differ from one time to the next."""


# writing -------------------------------------------------------------------------------------------------------------
# Writes a run as a folder (tables of `twin.trace`, manifest, and the result as `--json` prints it) and other files.


RESULT = "result.json"


def check_free(*outs: Path | None) -> None:
    """Raises BadInput if any output exists or cannot be made; called before any work. None: there is no output."""
    for out in outs:
        if out is not None:
            _check_free(out)


def check_file(*files: Path | None) -> None:
    """Raises BadInput if any new file exists or cannot be made; its folder must be there, as one that is not was most
    likely misspelt. Called before any work. None: there is no file."""
    for file in files:
        if file is not None and not file.parent.exists():
            raise BadInput(f"{file} cannot be made: there is no folder {file.parent}; make it, or name another file")
        check_free(file)


@contextmanager
def writing(out: Path, remedy: str) -> Iterator[None]:
    """Context in which `out` is written. Raises BadInput with the remedy if it cannot be."""
    try:
        yield
    except OSError as error:
        raise BadInput(f"{out} cannot be written: {error.strerror}; {remedy}") from None


def _check_free(out: Path) -> None:
    if out.exists():
        raise BadInput(f"{out} exists; remove it or give another name")
    above = next(folder for folder in (out.parent, *out.parent.parents) if folder.exists())
    if not above.is_dir():
        raise BadInput(f"{out} cannot be made: {above} is a file; name another folder")
    try:
        with tempfile.TemporaryFile(dir=above):  # permissions do not show full disks and read-only mounts
            pass
    except OSError as error:
        raise BadInput(
            f"{out} cannot be made: {above} cannot be written to ({error.strerror}); name another folder"
        ) from None


def write_run(run: Run, name: str, out: Path) -> None:
    """Writes `out` with the tables of `twin.trace`, manifest.json and result.json; whole or not at all.

    Raises BadInput if `out` exists or cannot be written.
    """
    from twin.trace import write_tables  # Parquet, which takes longer to import than a short run takes

    check_free(out)
    with writing(out, "name another folder"), new_folder(out) as aside:
        write_tables(run.rows(run="run-000000", index=0, name=name, subtasks=True), aside)
        (aside / "manifest.json").write_text(json.dumps(run.manifest, indent=2) + "\n", encoding="utf-8")
        (aside / RESULT).write_text(json.dumps(run.to_dict(), indent=2) + "\n", encoding="utf-8")
        seal(aside, ["manifest.json", RESULT])


def write_text(text: str, out: Path) -> None:
    """Writes a new text file, whole or not at all. Raises BadInput if it exists or cannot be written."""
    write_bytes(text.encode("utf-8"), out)


def write_bytes(content: bytes, out: Path) -> None:
    """Writes a new file, whole or not at all. Raises BadInput if it exists or cannot be written."""
    check_free(out)
    with writing(out, "name another file"):
        files.write_bytes(out, content)


# reading -------------------------------------------------------------------------------------------------------------
# Reads a run from the folder that `twin run --out` wrote.


MANIFEST = ("version", "config_hash", "seed", "horizon_s", "warmup_s", "period_s")
UNKNOWN = "the folder has no result.json: standard errors, warnings and doubled results of the run are not known"


class KeptRun(NamedTuple):
    """A run from a folder. name: of the scenario. job: without events and policy; a folder keeps only their effects."""

    name: str
    job: Deployment
    run: Run


def read_run(folder: Path) -> KeptRun:
    """Reads the run in a folder. Raises BadInput if the folder is damaged, or holds no run or several."""
    if not (folder / "runs.parquet").is_file():
        raise BadInput(f"{folder} holds no run; name a folder that 'twin run SCENARIO --out DIR' wrote")
    told = damage(folder)
    if told:
        raise BadInput(f"{folder}: {told}; make it again with 'twin run SCENARIO --out DIR'")
    about = _rows(folder, "runs")
    if len(about) != 1 or about[0]["status"] != "ok":
        raise BadInput(f"{folder} holds {len(about)} runs; name a folder of one run that 'twin run --out' wrote")
    return KeptRun(about[0]["name"] or folder.name, job := _job(about[0], folder), _run(about[0], folder, job))


def _job(about: Mapping[str, Any], folder: Path) -> Deployment:
    return parse(Deployment, parse_json(about["deployment"]), str(folder / "runs.parquet"))


def _run(about: Mapping[str, Any], folder: Path, job: Deployment) -> Run:
    tables = ("operators", "subtasks", "hosts", "links")
    operators, subtasks, hosts, links = (_rows(folder, name) for name in tables)
    warmup_s, result = about["warmup_s"], _result(folder)
    events = tuple({**row, "detail": parse_json(row["detail"])} for row in _rows(folder, "events"))
    return Run(
        metrics=metrics_of(
            operators, warmup_s, about["crashed"], queue_growth_per_s(job, operators, links, events, warmup_s)
        ),
        operators=operator_totals(operators, warmup_s, subtasks, result["visits"]),
        hosts=host_totals(hosts, warmup_s),
        warnings=tuple(result["warnings"]),
        manifest={key: about[key] for key in MANIFEST} | {"simulated_s": max(row["end_s"] for row in operators)},
        deployment_json=about["deployment"],
        checkpoints_json=about["checkpoints"],
        crashed=about["crashed"],
        cpu_s=about["cpu_s"],
        operator_rows=tuple(operators),
        host_rows=tuple(hosts),
        link_rows=tuple(links),
        event_rows=events,
        subtask_rows=tuple(subtasks),
        links=link_totals(links, warmup_s),
        standard_errors=StandardErrors(**result["standard_errors"]),
        full=full(job, operators, subtasks, hosts, events, warmup_s),
        duplicates=result["duplicates"],
        markers=from_sources(result["markers"]),
    )


def _rows(folder: Path, table: str) -> list[Row]:
    """Rows of a table of the folder, without the run's identifier, which runs in memory lack as well."""
    rows = read_table(folder, table).to_pylist()
    return [{key: value for key, value in row.items() if key != "run"} for row in rows]


def _result(folder: Path) -> Mapping[str, Any]:
    """Reads the values that are not in tables; defaults if the file is missing. Raises BadInput if it is damaged."""
    path = folder / RESULT
    if not path.is_file():
        return {"warnings": [UNKNOWN], "standard_errors": {}, "duplicates": 0, "markers": {}, "visits": None}
    try:
        found = parse_json(path.read_text(encoding="utf-8"))
        visits = {name: each.get("visits") for name, each in found["operators"].items()}
        return {key: found[key] for key in ("warnings", "standard_errors", "duplicates", "markers")} | {
            "visits": visits
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise BadInput(f"{path} is not what 'twin run' wrote; make the run again") from None
