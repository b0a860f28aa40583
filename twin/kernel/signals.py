"""Signals while machine code runs.

Python runs their handlers as soon as it runs anything: in what the kernel calls it for, where an exception would be
lost, and what was called for left undone.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

HEARD = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)
"""Those whose handlers raise: interruptions, and limits of time."""


@contextmanager
def held() -> Iterator[list[int]]:
    """Their handlers run afterwards; the list has those that came. Only the main thread has any."""
    if threading.current_thread() is not threading.main_thread():
        yield []
        return
    came: list[int] = []

    def note(number: int, _frame: Any) -> None:
        came.append(number)

    before = {each: signal.signal(each, note) for each in HEARD if callable(signal.getsignal(each))}
    try:
        yield came
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
        for number in came:
            signal.raise_signal(number)
