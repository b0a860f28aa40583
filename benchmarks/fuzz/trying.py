"""Cases of the fuzzing: how an input is changed, and what came of it."""

from __future__ import annotations

import contextlib
import copy
import faulthandler
import io
import signal
import time
import traceback
from collections.abc import Callable, Iterator, MutableMapping, MutableSequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any, NoReturn

from streamtwin.cli import app as cli
from twin.errors import MOST_CHARACTERS, BadInput

# changes -------------------------------------------------------------------------------------------------------------
# Small changes of data, text and bytes, like those of typing errors, failing disks and malice.


NUMBERS = (
    *(0, -0.0, 1, -1, 0.5, 2, 3, 7, 10, 100, 1e3, 1e6, 1e9, 1e12, 1e18, 1e30, 1e300, 1.7e308),
    *(5e-324, 1e-308, 1e-160, 1e-30, 1e-12, 1e-9, 1e-6, 1e-3, 2**31, 2**63, 2**64, 10**25),
    *(float("inf"), float("-inf"), float("nan"), True, False),
)
PLAIN_WORDS = (
    "a on null ~ ../.. / /dev/null a/0 a->b 1e400 -1 nan 0x10 1_000 !!python/object:os.system "
    "storm brisk flink hash forward broadcast constant poisson count time join sink"
)
WORDS = (*PLAIN_WORDS.split(), "", " ", "a/9", "<<", "x" * 300, "\0", "\ufeff", "é", "\u202e", "😀", "{{7*7}}", "$(id)")
Node = MutableMapping[str, Any] | MutableSequence[Any]


def any_value(random: Random) -> Any:
    """Random value, often of another type than the one that it replaces."""
    plain: list[Callable[[], Any]] = [lambda: random.choice(NUMBERS), lambda: random.choice(WORDS), lambda: None]
    nested: list[Callable[[], Any]] = [list, dict, lambda: [random.choice(NUMBERS)], lambda: {"a": 1}]
    return random.choice([*plain, *plain, *plain, *nested])()


def other_number(value: float, random: Random) -> float:
    """Random number: near the given one, far from it, or unrelated to it."""
    far = value * 10 ** random.randint(-12, 12)
    return random.choice((far, value * 10 ** random.uniform(-1, 1), -value, value + 1, random.choice(NUMBERS)))


def places(data: Node) -> Iterator[tuple[Node, Any]]:
    """Yields each container with each of its keys or indices, at every depth."""
    for key in list(data) if isinstance(data, MutableMapping) else range(len(data)):
        yield data, key
        if isinstance(data[key], MutableMapping | MutableSequence):
            yield from places(data[key])


def changed_data(data: Node, random: Random, *, numbers_only: bool = False) -> Node:
    """Copy with one to four changes: values replaced, scaled, swapped, removed, doubled, moved elsewhere."""
    data = copy.deepcopy(data)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        where = [place for place in places(data) if not numbers_only or _is_number(place[0][place[1]])]
        if where:
            _change(*random.choice(where), where, random, numbers_only)
    return data


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _change(node: Any, key: Any, where: list[tuple[Any, Any]], random: Random, numbers_only: bool) -> None:
    value, way = node[key], random.randrange(8)
    if _is_number(value) and (numbers_only or way < 4):
        node[key] = other_number(value, random)
    elif way < 4:
        node[key] = any_value(random)
    elif way == 4:
        del node[key]
    elif way == 5:
        other, its_key = random.choice(where)
        if its_key in other if isinstance(other, MutableMapping) else its_key < len(other):
            node[key] = copy.deepcopy(other[its_key])
    elif isinstance(node, MutableSequence):
        node.insert(random.randint(0, len(node)), copy.deepcopy(value))
    else:
        node[f"{key}{random.choice(('s', '', ' ', '_s'))}"] = any_value(random)


def changed_text(text: str, random: Random) -> str:
    """Text with characters, lines and words removed, doubled, swapped or put in."""
    for _ in range(random.choice((1, 1, 2, 5))):
        at, until = sorted(random.randint(0, len(text)) for _ in range(2))
        until = min(until, at + random.choice((1, 3, 40)))
        put = random.choice(
            ("", text[at:until] * 2, random.choice(WORDS), str(random.choice(NUMBERS)), *"[]{}:-,&*'\"\t\n#|>%@")
        )
        text = text[:at] + put + text[until:]
    return text


def changed_bytes(content: bytes, random: Random) -> bytes:
    """Bytes of which some are flipped, a piece is cut out, or the end is cut off."""
    way = random.randrange(4)
    if way == 0:
        return content[: random.randint(0, len(content))]
    if way == 1:
        at, until = sorted(random.randint(0, len(content)) for _ in range(2))
        return content[:at] + content[until:]
    changed = bytearray(content)
    for _ in range(random.choice((1, 1, 10, 1000))):
        changed[random.randrange(len(changed))] = random.randrange(256)
    return bytes(changed)


# outcomes ------------------------------------------------------------------------------------------------------------
# Outcome of a case: the command line is called in this process, and what it does gets one of nine names.


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
