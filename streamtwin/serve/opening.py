"""Jobs that people bring to the page: a scenario file, or a job of Flink by its address or its saved answers.

A browser sends what is in a file, so that the server reads no file of this machine for a page. What comes is checked,
and kept as a scenario file in the folder of the state, where a restart finds it. An import may take minutes: it says
what it waits for, and can be stopped.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain, count
from pathlib import Path
from tempfile import TemporaryDirectory

from pydantic import BaseModel

from scenarios.files.scenario_file import MAX_SCENARIO_BYTES, parse_scenario, read_text
from streamtwin.connect.importers.flink_live import without_credentials
from streamtwin.serve.work import LongQuestion
from twin.arrivals.replay import only_recordings
from twin.errors import BadInput
from twin.files import parse_json, write_text

FOLDER = "opened"
MOST_JOBS = 200
HEADING = "Opened here"
"""Over the list of these jobs."""
MOST_NAME = 60
"""Most bytes of a job's name, as disks count, which leaves room for what stands around it in names of files."""
_ANSWER = re.compile(r"[\w-][\w.-]{0,99}\.json", re.ASCII)
NOTE = "# assumed: "
"""Beginning of a line of a kept file that says what its import assumed."""
STOPPED = "the import was stopped; nothing of it is kept"


class Brought(BaseModel, strict=True, extra="forbid"):
    """What a person brings: a scenario file (its name and text), the address of a Flink, or answers of one by file
    name. job: its name, where there are several. window: seconds for which a live job is watched."""

    file: str = ""
    text: str = ""
    url: str = ""
    answers: dict[str, str] = {}
    job: str = ""
    window: str = ""


def known(state: Path) -> dict[str, str]:
    """Files of the jobs that were brought before, by name."""
    return {each.stem: str(each) for each in sorted((state / FOLDER).glob("*.yaml"))}


class Import:
    """Import of a job of Flink by its address or its saved answers. of: what is imported, in words. stopped: whether a
    person has stopped it. refused: why it has failed, until a person has seen that; empty before."""

    def __init__(self, brought: Brought) -> None:
        """Raises BadInput if nothing is brought, or no address."""
        url, job = brought.url, brought.job.strip()
        if not url and not brought.answers:
            raise BadInput("nothing was chosen; choose a scenario file, or give the address of a Flink or its answers")
        if url and not url.lower().startswith(("http://", "https://")):
            raise BadInput(
                "the address of a Flink begins with http:// or https://; write http://HOST:PORT, as of its web page"
            )
        of = without_credentials(url) if url else "saved answers of Flink"
        self.of = f"{job}, {of}" if job else of
        self.stopped, self.refused = False, ""
        self._brought, self._work = brought, LongQuestion("import", [], "")

    @property
    def lines(self) -> Sequence[str]:
        """Last lines of its progress."""
        return self._work.lines

    def stop(self) -> None:
        """Stops it, so that nothing of it is kept; the second call ends it at once."""
        self.stopped = True
        self._work.stop()

    async def made(self, told: Callable[[], None]) -> tuple[str, str]:
        """Name and text of the scenario, as `twin import flink` makes it. told: called after each line of progress.

        Raises BadInput with what that command says if it fails.
        """
        brought, work = self._brought, self._work
        with TemporaryDirectory(prefix="twin-serve-") as name:
            folder = Path(name)
            source = brought.url or str(await asyncio.to_thread(_saved, brought.answers, folder / "answers"))
            out = folder / "job.yaml"
            options = {"job": brought.job.strip(), "window": brought.window.strip()}
            asked = [f"--{option}={value}" for option, value in options.items() if value]
            work.asked = ["import", "flink", f"--out={out}", *asked, source]
            answered = await work.answer(told)
            if answered["refused"] or not out.is_file():
                raise BadInput(answered["refused"].replace(f"{folder}/", "") or STOPPED)
            notes = parse_json(answered["document"])["notes"]
            text = out.read_text(encoding="utf-8")
        written = "".join(f"{NOTE}{' '.join(str(note).split())}\n" for note in notes)
        scenario = await asyncio.to_thread(parse_scenario, text, "the import")
        return scenario.name, f"{written}{text}"


def keep(state: Path, called: Mapping[str, str], name: str, text: str) -> tuple[str, Path]:
    """Keeps a scenario; returns its name on the page, and its file. The same text is the same job. called: files of the
    jobs that there are, by name.

    Raises BadInput if it is no scenario, names a file of this machine, or if there are too many.
    """
    if len(text.encode()) > MAX_SCENARIO_BYTES:
        raise BadInput(f"a scenario file has at most {MAX_SCENARIO_BYTES:,} bytes")
    with only_recordings(()):
        parse_scenario(text, name or "the file")
    before = known(state)
    for each, file in called.items():
        if file in before.values() and Path(file).read_bytes() == text.encode():
            return each, Path(file)
    if len(before) >= MOST_JOBS:
        raise BadInput(f"{MOST_JOBS} jobs were opened here; remove some of {state / FOLDER}")
    plain = re.sub(r"[^\w.-]+", "-", name).strip("-.").encode()[:MOST_NAME].decode(errors="ignore") or "job"
    own = free(plain, {*called, *before})
    out = state / FOLDER / f"{own}.yaml"
    write_text(out, text)
    return own, out


def free(name: str, taken: Collection[str]) -> str:
    """The name itself, or with a number after it if it is taken."""
    return next(each for each in chain([name], (f"{name}-{n}" for n in count(2))) if each not in taken)


def assumed(file: Path) -> list[str]:
    """What the import of a kept job assumed; empty for other files."""
    if file.parent.name != FOLDER:
        return []
    lines = read_text(file, MAX_SCENARIO_BYTES).splitlines()
    return [line.removeprefix(NOTE) for line in lines if line.startswith(NOTE)]


def _saved(answers: Mapping[str, str], folder: Path) -> Path:
    """Writes answers to files; returns their folder, or the file if there is but one. Raises BadInput for a name that
    is none of an answer."""
    folder.mkdir()
    for name, text in answers.items():
        if not _ANSWER.fullmatch(name):
            raise BadInput(f"{name}: no saved answer; choose the .json files of the folder")
        (folder / name).write_text(text, encoding="utf-8")
    return folder / next(iter(answers)) if len(answers) == 1 else folder
