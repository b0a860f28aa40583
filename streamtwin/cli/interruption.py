"""Interruption of commands by Ctrl-C or SIGTERM: the words on what is kept, and the end of the process."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType
from typing import NoReturn

from streamtwin.house import ENDS_WITH_STDIN

INTERRUPTED = 130


class Interrupted(BaseException):
    """Interruption of a command that has kept, printed or written something, which its message names."""


@contextmanager
def kept(what: str) -> Iterator[None]:
    """Context in which an interruption keeps `what`: raises Interrupted on KeyboardInterrupt."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(f"the same command goes on, {what} are kept") from None


@contextmanager
def _handled(number: signal.Signals, by: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Context in which a signal is handled by `by`; without effect in a thread, or where the signal is ignored."""
    before = signal.getsignal(number)
    if before is signal.SIG_IGN or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(number, by)
    try:
        yield
    finally:
        signal.signal(number, before)


def end_with_stdin() -> None:
    """Ends this process and its group as soon as its standard input is closed, if ENDS_WITH_STDIN is set."""
    if os.environ.pop(ENDS_WITH_STDIN, ""):
        threading.Thread(target=_end_at_its_end, args=(sys.stdin.fileno(),), daemon=True).start()


def _end_at_its_end(number: int) -> None:
    while os.read(number, 1):
        continue
    os.killpg(os.getpgrp(), signal.SIGKILL)


def ended_as_interrupted() -> AbstractContextManager[None]:
    """Context in which SIGTERM (by timeout, a batch system, a shut-down) interrupts the command as Ctrl-C does."""
    return _handled(signal.SIGTERM, signal.default_int_handler)


@contextmanager
def hearing(say: Callable[[str], None]) -> Iterator[Callable[[], bool]]:
    """Context with a function that tells whether Ctrl-C was pressed; only the second one interrupts."""
    pressed = threading.Event()

    def press(_signal: int, _frame: FrameType | None) -> None:
        if pressed.is_set():
            raise KeyboardInterrupt
        pressed.set()
        say("interrupted; ending with the best plan so far, Ctrl-C again ends at once")

    with _handled(signal.SIGINT, press):
        yield pressed.is_set


def in_words(interrupted: Interrupted | None) -> str:
    """Line on an interruption. None: nothing is kept."""
    return f"interrupted; {interrupted or 'nothing half-made is left, the same command begins anew'}"


def leave(status: int) -> NoReturn:
    """Ends the process. After an interruption threads of JAX or a solver may still run, and an interpreter that shuts
    down beside them crashes; so the shut-down, which has nothing left to do, is skipped.
    """
    if (status == INTERRUPTED and "jax" in sys.modules) or _solver_left_behind():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)


def _solver_left_behind() -> bool:
    solving = sys.modules.get("optimizers.program")
    return solving is not None and solving.left_behind()
