"""What Ctrl-C leaves behind, and how a command ends by it."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType
from typing import NoReturn

INTERRUPTED = 130


class Interrupted(BaseException):
    """A KeyboardInterrupt where something is kept, or has been told and written; its message says what."""


@contextmanager
def kept(what: str) -> Iterator[None]:
    """What an interrupted command finds again when it is given once more. Raises Interrupted on KeyboardInterrupt."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(f"the same command goes on, {what} are kept") from None


@contextmanager
def _handled(number: signal.Signals, by: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """A signal is handled so meanwhile. Not in a thread, nor where it is ignored."""
    before = signal.getsignal(number)
    if before is signal.SIG_IGN or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(number, by)
    try:
        yield
    finally:
        signal.signal(number, before)


def ended_as_interrupted() -> AbstractContextManager[None]:
    """Whoever ends the command from outside (SIGTERM: timeout, a batch system, a shut-down) interrupts it, too."""
    return _handled(signal.SIGTERM, signal.default_int_handler)


@contextmanager
def hearing(say: Callable[[str], None]) -> Iterator[Callable[[], bool]]:
    """The first Ctrl-C is heard by whoever asks, instead of ending the command; the second one interrupts as ever."""
    pressed = threading.Event()

    def press(_signal: int, _frame: FrameType | None) -> None:
        if pressed.is_set():
            raise KeyboardInterrupt
        pressed.set()
        say("interrupted; ending with the best plan so far, Ctrl-C again ends at once")

    with _handled(signal.SIGINT, press):
        yield pressed.is_set


def in_words(interrupted: Interrupted | None) -> str:
    """One line. None: nothing is kept."""
    return f"interrupted; {interrupted or 'nothing half-made is left, the same command begins anew'}"


def leave(status: int) -> NoReturn:
    """Ends the process. Interrupted in the middle of a computation, JAX's threads or a solver's still run, and an
    interpreter that shuts down beside them crashes; nothing is left to be done, so it is left out.
    """
    if (status == INTERRUPTED and "jax" in sys.modules) or _solver_left_behind():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)


def _solver_left_behind() -> bool:
    solving = sys.modules.get("optimizers.program")
    return solving is not None and solving.left_behind()
