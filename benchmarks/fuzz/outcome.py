"""Outcome of a case: the command line is called in this process, and what it does gets one of nine names."""

from __future__ import annotations

import contextlib
import faulthandler
import io
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

from streamtwin.cli import app as cli
from twin.errors import MOST_CHARACTERS, BadInput

RAN, REFUSED, ANNOUNCED, SLOW = "ran", "BadInput", "announced long", "slow"
NOISE, TRACEBACK, HANG = "more than a line", "traceback", "hang"
UNNOTICED, WRONG = "unnoticed", "wrong figure"
FAULTS = (NOISE, TRACEBACK, HANG, UNNOTICED, WRONG)
OUTCOMES = (REFUSED, RAN, ANNOUNCED, SLOW, *FAULTS)
SLOW_S, HANG_S = 5.0, 60.0
"""Limits of a case in CPU seconds: beyond the first it is slow, at the second it is stopped. A run that is announced as
long is not run."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of a case. kind: of OUTCOMES. detail: message, or end of the traceback. cpu_s: CPU time."""

    kind: str
    detail: str
    cpu_s: float


class TimeUp(BaseException):
    """Limit of CPU time reached. It is not an Exception, so that no handler swallows it."""


class LongAnnouncedError(BaseException):
    """Announcement of a long run by the command, which ends the case."""


class CommandFailedError(Exception):
    """Command that ended with a status other than 0; the text is what it wrote to stderr."""

    def __init__(self, status: object, said: str) -> None:
        super().__init__(said)
        self.status = status


class _Said(io.StringIO):
    """Standard error of a command; ends the command where it announces a long run."""

    def write(self, text: str) -> int:
        if " of CPU time to go" in text:
            raise LongAnnouncedError
        return super().write(text)


@contextlib.contextmanager
def _limited(limit_s: float) -> Iterator[None]:
    """Raises TimeUp after `limit_s` CPU seconds. Native code that lets no signal through ends the process."""

    def stop(_signal: int, _frame: FrameType | None) -> NoReturn:
        raise TimeUp

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, limit_s)
    faulthandler.dump_traceback_later(20 * limit_s, exit=True)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGPROF, before)


def of_call(call: Callable[[], object]) -> Outcome:
    """Outcome of a function of ours, which must return or raise BadInput."""
    started_s = time.process_time()
    kind, detail = RAN, ""
    try:
        with _limited(HANG_S):
            call()
    except BadInput as error:
        kind, detail = _refusal(f"twin: {error}\n")
    except CommandFailedError as error:
        kind, detail = _refusal(str(error)) if error.status == 2 else (TRACEBACK, str(error))
    except LongAnnouncedError:
        kind = ANNOUNCED
    except TimeUp:
        kind, detail = HANG, f"stopped after {HANG_S:g} CPU s"
    except Exception:
        kind, detail = TRACEBACK, traceback.format_exc()
    cpu_s = time.process_time() - started_s
    return Outcome(SLOW if kind in (RAN, REFUSED) and cpu_s > SLOW_S else kind, detail, cpu_s)


def command(*arguments: str) -> str:
    """Runs a command line, and returns what it prints. Raises CommandFailedError if the status is not 0."""
    out, said = io.StringIO(), _Said()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(said):
            cli.main([*arguments, "--traceback"])
    except SystemExit as stopped:
        if stopped.code != 0:
            raise CommandFailedError(stopped.code, said.getvalue()) from None
    return out.getvalue()


def of_command(*arguments: str) -> Outcome:
    """Outcome of a command line."""
    return of_call(lambda: command(*arguments))


def of_import(out: Path, *arguments: str) -> Outcome:
    """Outcome of a command line that imports a job into a file, and of a short run of the imported job."""
    outcome = of_command("import", *arguments, "--out", str(out))
    if outcome.kind != RAN:
        return outcome
    return of_command("run", str(out), "--horizon", "20", "--set", "run.warmup_s=0")


def _refusal(said: str) -> tuple[str, str]:
    """Kind and text of a refusal. It must be one line; before it only notes and progress, after it only further
    mistakes of the same file may stand."""
    *before, line = [each for each in said.splitlines() if not each.startswith("  ")] or [""]
    clean = line.startswith("twin: ") and len(line) < MOST_CHARACTERS + 100
    return (REFUSED if clean and all(each.startswith(("note: ", "[")) for each in before) else NOISE), said
