"""What became of one case: the command line is called in this process, and all that it does has one of seven names."""

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
"""CPU seconds, of what was not announced as long; what was is not run."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """kind: of OUTCOMES. detail: the message, or the end of the traceback. cpu_s: that it took."""

    kind: str
    detail: str
    cpu_s: float


class TimeUp(BaseException):
    """Not an Exception, so that nothing swallows it."""


class LongAnnouncedError(BaseException):
    """The command has said that it will take long."""


class CommandFailedError(Exception):
    """A command that ended with a status other than 0; its text is what was said."""

    def __init__(self, status: object, said: str) -> None:
        super().__init__(said)
        self.status = status


class _Said(io.StringIO):
    """What a command says; it is stopped where it announces a long run."""

    def write(self, text: str) -> int:
        if text.startswith("a long run: "):
            raise LongAnnouncedError
        return super().write(text)


@contextlib.contextmanager
def _limited(limit_s: float) -> Iterator[None]:
    """Raises TimeUp after so many CPU seconds; native code that lets no signal through ends the process."""

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
    """Of a function of ours, which returns or raises BadInput."""
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
    """What a command line prints. Raises CommandFailedError if it does not end with status 0."""
    out, said = io.StringIO(), _Said()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(said):
            cli.main([*arguments, "--traceback"])
    except SystemExit as stopped:
        if stopped.code != 0:
            raise CommandFailedError(stopped.code, said.getvalue()) from None
    return out.getvalue()


def of_command(*arguments: str) -> Outcome:
    """Of the command line."""
    return of_call(lambda: command(*arguments))


def of_import(out: Path, *arguments: str) -> Outcome:
    """Of a command line that imports a job into a file, and of a short run of that."""
    outcome = of_command("import", *arguments, "--out", str(out))
    if outcome.kind != RAN:
        return outcome
    return of_command("run", str(out), "--horizon", "20", "--set", "run.warmup_s=0")


def _refusal(said: str) -> tuple[str, str]:
    """One line, before it nothing but notes and progress, and after it the other mistakes of the same file."""
    *before, line = [each for each in said.splitlines() if not each.startswith("  ")] or [""]
    clean = line.startswith("twin: ") and len(line) < MOST_CHARACTERS + 100
    return (REFUSED if clean and all(each.startswith(("note: ", "[")) for each in before) else NOISE), said
