"""Inquiry about a job: the scenario as given, and a list of changes, each of them an option of the command line.

So the page can ask nothing that the command cannot, and can show the command that gives the same answer.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import BaseModel, Field

from scenarios.files import registry, scenario_file
from scenarios.files.overrides import set_values
from scenarios.files.yaml_text import parse_text
from scenarios.questions.alterations import with_all_events
from twin.arrivals.replay import Replay, only_recordings
from twin.atomic import write_text
from twin.checksums import stamped, unstamped
from twin.errors import BadInput
from twin.scenario import Scenario

_WORD = re.compile(r"[\w./-]+")


def flow(value: Any) -> str:
    """Value on one line of YAML, with as few quotes as possible."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{flow(key)}: {flow(part)}" for key, part in value.items()) + "}"
    if isinstance(value, str):
        return value if _WORD.fullmatch(value) and _read(value) == value else json.dumps(value)
    if isinstance(value, Sequence):
        return "[" + ", ".join(map(flow, value)) + "]"
    if isinstance(value, float):
        return f"{int(value)}" if value.is_integer() and abs(value) < 2**53 else repr(value)
    return json.dumps(value)


def _read(text: str) -> Any:
    try:
        return parse_text(text, "")
    except BadInput:
        return None


SET, EVENT = "--set", "--event"
MOST_CHANGES, MOST_TEXT = 200, 100_000
"""Most changes of one job, and most characters of one change."""
PAIRS = 5


class Alteration(NamedTuple):
    """Change of a job: an option, such as `--set`, and its text. stroke: a change replaces an earlier one of the same
    stroke of a slider. said: words for people, if the text does not tell."""

    flag: str
    text: str
    stroke: str = ""
    said: str = ""


@dataclass(frozen=True, slots=True)
class Inquiry:
    """Inquiry about a job. name: of the scenario, for commands. against: the state that it is compared with. version:
    grows with each change, also after a restart of the server. answer: the last long question, its options and its
    document."""

    name: str
    changes: tuple[Alteration, ...] = ()
    against: Literal["before", "given"] = "before"
    version: int = 0
    answer: Mapping[str, Any] | None = field(default=None, hash=False)

    def options(self, changes: Sequence[Alteration] | None = None) -> list[str]:
        """Options of the command line, in its order: values first, then events."""
        listed = self.changes if changes is None else changes
        ordered = [each for flag in (SET, EVENT) for each in listed if each.flag == flag]
        return [word for each in ordered for word in (each.flag, each.text)]

    def scenario(self, changes: Sequence[Alteration] | None = None) -> Scenario:
        """Scenario with the changes. Raises BadInput if they do not fit it (any more), or name a file that the scenario
        as given does not name."""
        listed, before = self.changes if changes is None else changes, given(self.name)
        with only_recordings(law.path for law in before.workload.arrivals.values() if isinstance(law, Replay)):
            values = set_values(before, [each.text for each in listed if each.flag == SET])
            return with_all_events(values, [each.text for each in listed if each.flag == EVENT])

    def changed(self, change: Alteration) -> Self:
        """Inquiry with one more change, which replaces one of the same stroke. Raises BadInput if it does not fit."""
        before = self.before_stroke(change.stroke)
        if len(before) >= MOST_CHANGES:
            raise BadInput(
                f"{len(before)} changes are the most; undo some, or save the scenario and go on from the file"
            )
        if len(change.text) > MOST_TEXT:
            raise BadInput(f"a change of {len(change.text):,} characters; {MOST_TEXT:,} are the most")
        after = (*before, change)
        self.scenario(after)
        return self._next(changes=after)

    def before_stroke(self, stroke: str) -> tuple[Alteration, ...]:
        """Changes that a change of this stroke follows, without an earlier one of the same stroke."""
        again = bool(stroke and self.changes) and self.changes[-1].stroke == stroke
        return self.changes[:-1] if again else self.changes

    def dropped(self, at: int) -> Self:
        """Inquiry without one of the changes, by number; -1: the last. Raises BadInput if the others no longer fit."""
        if not self.changes:
            raise BadInput("there is nothing to undo: the scenario is as given")
        if not -1 <= at < len(self.changes):
            raise BadInput(f"there is no change {at + 1} to undo; there are {len(self.changes)}")
        kept = tuple(each for number, each in enumerate(self.changes) if number != at % len(self.changes))
        if kept and at not in (-1, len(self.changes) - 1):
            self.scenario(kept)
        return self._next(changes=kept)

    def compared_with(self, against: str) -> Self:
        """Inquiry that is compared with the run before, or with the scenario as given."""
        if against not in ("before", "given"):
            raise BadInput(f"against {against!r}: either before or given")
        return self._next(against=against)

    def answered(self, answer: Mapping[str, Any] | None) -> Self:
        """Inquiry with the answer to a long question."""
        return self._next(answer=answer)

    @property
    def values(self) -> tuple[Alteration, ...]:
        """Changes that are no added events."""
        return tuple(each for each in self.changes if each.flag == SET)

    @property
    def earlier(self) -> tuple[Alteration, ...]:
        """Changes of the scenario that the present one is compared with."""
        return () if self.against == "given" else self.changes[:-1]

    def _next(self, **parts: Any) -> Self:
        return replace(self, version=self.version + 1, **parts)

    def run_command(self) -> str:
        """Command that prints the numbers of the page's run."""
        return command("run", self.name, *self.options())

    def compare_command(self) -> str:
        """Command that gives the page's comparison; empty if the two scenarios differ in several changes at once."""
        if len(self.changes) - len(self.earlier) != 1:
            return ""
        last, before = self.changes[-1], self.earlier
        values = [each for each in before if each.flag == SET]
        words = self.options(values)
        if len(values) < len(before) or (last.flag == SET and any(each.flag == EVENT for each in before)):
            events = [each.model_dump(mode="json", exclude_none=True) for each in self.scenario(before).events]
            words += [SET, f"events={flow(events)}"]
        vary = "--vary" if last.flag == SET else EVENT
        return command("whatif", self.name, *words, vary, last.text, "--replications", str(PAIRS))


def command(*words: str) -> str:
    """Command line of `twin`, quoted for a shell."""
    return shlex.join(["twin", *words])


def given(name: str) -> Scenario:
    """Scenario in its file as it is now. Raises BadInput if the file cannot be read."""
    path = registry.find(name)
    try:
        status = path.stat()
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}; check the path") from None
    return _given(name, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=64)
def _given(name: str, _modified_ns: int, _bytes: int) -> Scenario:
    return scenario_file.load(name)


class _Answer(BaseModel, strict=True, extra="forbid"):
    """Form of the last long question in a file."""

    question: str
    command: str
    of: str
    plan: str
    took_s: float
    refused: str
    document: str
    interrupted: bool


class _State(BaseModel, strict=True, extra="forbid"):
    """Form of an inquiry in a file."""

    changes: Annotated[list[tuple[Literal["--set", "--event"], str, str, str]], Field(max_length=MOST_CHANGES)]
    against: Literal["before", "given"]
    version: Annotated[int, Field(ge=0)]
    answer: _Answer | None


class Shelf:
    """Shelf of the inquiries about jobs, by their names on the page, kept in files with checksums."""

    def __init__(
        self, folder: Path, jobs: Mapping[str, str], check: Callable[[Mapping[str, Any]], object] = lambda _answer: None
    ) -> None:
        """Opens the shelf. folder: of the state. jobs: names of jobs for commands, by the name on the page. check:
        raises ValueError or LookupError for a kept answer that cannot be shown."""
        self.folder, self.jobs, self._check = folder, jobs, check
        self._open: dict[str, Inquiry] = {}

    def get(self, name: str) -> Inquiry:
        """Inquiry about a job; without changes if there is none yet. Raises KeyError for an unknown job."""
        if name not in self._open:
            self._open[name] = self._read(name, self.jobs[name])
        return self._open[name]

    def put(self, name: str, inquiry: Inquiry) -> None:
        """Keeps the inquiry about a job, and writes it to its file."""
        self._open[name] = inquiry
        kept = {key: value for key, value in asdict(inquiry).items() if key != "name"}
        write_text(self._file(name), stamped(kept) + "\n")

    def _file(self, name: str) -> Path:
        plain = "".join(each if each.isalnum() or each in "-_." else "_" for each in name)[:60]
        return self.folder / f"{plain}-{sha256(self.jobs[name].encode()).hexdigest()[:8]}.json"

    def _read(self, name: str, called: str) -> Inquiry:
        try:
            body = unstamped(self._file(name).read_text(encoding="utf-8"))
            kept = _State.model_validate_json(json.dumps(body))
            answer = None if kept.answer is None else kept.answer.model_dump()
            if answer is not None:
                self._check(answer)
        except FileNotFoundError:
            return Inquiry(called)
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            raise BadInput(f"{self._file(name)} does not hold what a page has kept; remove it") from None
        changes = tuple(Alteration(*each) for each in kept.changes)
        return Inquiry(called, changes, kept.against, kept.version, answer)
