"""Keeps a question in a folder: the question, a line for each finished run, and the answer as table, figure and JSON.

The same question continues where it was interrupted, without simulating a run again; another one is refused, so that no
answer is overwritten. Only undamaged lines count, so an interrupted command loses only the runs that were being
simulated, and a damaged line only its run.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from warnings import warn

from scenarios.files.documents import as_csv
from scenarios.files.run_folder import check_free, writing
from twin import VERSION
from twin.errors import BadInput
from twin.files import digest, seal, stamped, sums, unstamped, write_bytes
from twin.scenario import Scenario, config_hash
from twin.workload import Replay

if TYPE_CHECKING:
    from scenarios.measures import Measures

FILE = "runs.jsonl"
LISTED = 5
"""Most places that a warning names as its origin."""


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """Stored results of a run. course: columns by period, if the question needs them.

    cpu_s: the CPU time that it took, which differs each time and does not count in comparisons.
    """

    measures: Measures
    warnings: tuple[str, ...] = ()
    course: Mapping[str, Sequence[float]] | None = None
    cpu_s: float = field(default=0.0, compare=False)


@dataclass
class Kept:
    """Outcomes of runs by key, in memory and, if there is a folder, in a file in it."""

    folder: Path | None = None
    outcomes: dict[str, RunOutcome] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.folder is not None and (self.folder / FILE).exists():
            self.outcomes |= _read(self.folder / FILE)

    def add(self, key: str, outcome: RunOutcome) -> None:
        """Remembers a run, and appends it to the file."""
        self.outcomes[key] = outcome
        if self.folder is not None:
            with (self.folder / FILE).open("a", encoding="utf-8") as file:
                course = {} if outcome.course is None else {"course": outcome.course}
                line = {"run": key, "measures": outcome.measures, "warnings": outcome.warnings, **course}
                file.write(stamped(line) + "\n")


def said_once(warnings: Iterable[tuple[str, str]]) -> list[str]:
    """Warnings without repetitions, each with its origins. warnings: (origin, text); texts that differ only in numbers
    count as one."""
    alike: dict[str, tuple[str, list[str]]] = {}
    for where, text in warnings:
        _, places = alike.setdefault(re.sub(r"\d[\d.,]*", "", text), (text, []))
        if where not in places:
            places.append(where)
    return [f"{text} ({_listed(places)})" for text, places in alike.values()]


def _listed(places: Sequence[str]) -> str:
    few = places if len(places) <= LISTED else [*places[: LISTED - 1], f"{len(places) - LISTED + 1} others"]
    return f"{', '.join(few[:-1])} and {few[-1]}" if len(few) > 1 else few[0]


def _read(path: Path) -> dict[str, RunOutcome]:
    """Reads all undamaged lines, and removes the others, so that the next line is whole."""
    found, whole = {}, list[bytes]()
    *lines, unfinished = path.read_bytes().split(b"\n")
    for line in lines:
        try:
            body = unstamped(line.decode())
            found[body["run"]] = RunOutcome(body["measures"], tuple(body["warnings"]), body.get("course"))
        except (ValueError, KeyError, TypeError):
            continue
        whole.append(line + b"\n")
    if damaged := len(lines) - len(whole):
        warn(f"{damaged} of {len(lines)} runs in {path} are damaged, and are made again", stacklevel=1)
    if damaged or unfinished:
        write_bytes(path, b"".join(whole))
    return found


QUESTION = "question.json"


def opened(out: Path | None, question: Mapping[str, Any]) -> Kept:
    """Opens the finished runs of a question. Without a folder, runs are kept in memory only.

    Raises BadInput if the folder holds something else, or cannot be made.
    """
    if out is None:
        return Kept()
    text = json.dumps(question, indent=2) + "\n"
    if not out.exists():
        check_free(out)
        _make(out)
    elif not out.is_dir():
        raise BadInput(f"{out} is a file; name another folder with --out")
    elif not (out / QUESTION).is_file() and any(out.iterdir()):
        raise BadInput(f"{out} holds something else; name another folder with --out")
    elif (out / QUESTION).is_file() and (out / QUESTION).read_bytes() != text.encode():
        _refuse_another(out, text.encode())
    _replace(out / QUESTION, text.encode())
    seal(out, [QUESTION])
    return Kept(out)


def _refuse_another(out: Path, asked: bytes) -> None:
    """Raises BadInput unless the question there is only damaged, and its checksum shows that it is the one asked."""
    known = (sums(out) or {}).get(QUESTION)
    if known == hashlib.sha256(asked).hexdigest():
        return
    if known in (None, digest(out / QUESTION)):
        raise BadInput(f"{out} holds the answer to another question (see {out / QUESTION}); name another folder")
    raise BadInput(f"{out / QUESTION} is damaged, and may be another question; remove {out}, or name another folder")


def _make(out: Path) -> None:
    try:
        out.mkdir(parents=True)
    except OSError as error:
        raise BadInput(f"{out} cannot be made: {error.strerror}; name another folder") from None


def write(out: Path, document: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], figure: bytes | None) -> None:
    """Writes answer.json, table.csv and figure.png, each whole or not at all; they replace an earlier answer."""
    _replace(out / "table.csv", as_csv(rows).encode())
    if figure is not None:
        _replace(out / "figure.png", figure)
    _replace(out / "answer.json", (json.dumps(document, indent=2, allow_nan=False) + "\n").encode())
    seal(out, ["table.csv", *(["figure.png"] if figure is not None else []), "answer.json"])


def _replace(path: Path, content: bytes) -> None:
    with writing(path, "name another folder"):
        write_bytes(path, content)


def key(scenario: Scenario) -> str:
    """Hash (16 hex digits) of all that decides a run except its seed, including the recordings that are replayed."""
    laws = scenario.workload.arrivals.items()
    recorded = {name: _digest(Path(law.path)) for name, law in laws if isinstance(law, Replay)}
    return hashlib.sha256(json.dumps([VERSION, config_hash(scenario), recorded]).encode()).hexdigest()[:16]


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
