"""A call into a solver that hears nothing while it computes, made aside, so that who waits for it can go on without."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from optimizers.patience import Patience

LOOK_S = 0.05
GRACE_S = 1.0
"""A solver with a time limit of its own keeps it by about this much."""
NAME = "solver left behind"

R = TypeVar("R")


def aside(call: Callable[[], R], patience: Patience, waits: Callable[[float], None] | None = None) -> R | None:
    """What the call returns or raises; None if patience was over first: its thread is left behind. waits: is told the
    seconds so far, now and then."""
    if patience.endless and waits is None:
        return call()
    found: list[R] = []
    raised: list[BaseException] = []

    def go() -> None:
        try:
            found.append(call())
        except BaseException as error:  # for whoever waits
            raised.append(error)

    thread = threading.Thread(target=go, name=NAME, daemon=True)
    thread.start()
    waited_s = late_s = 0.0
    while thread.is_alive() and late_s <= (0.0 if patience.stopped() else GRACE_S):
        thread.join(LOOK_S)
        waited_s += LOOK_S
        late_s = late_s + LOOK_S if patience.over else 0.0
        if waits is not None and thread.is_alive():
            waits(waited_s)
    if raised:
        raise raised[0]
    return found[0] if found else None


def left_behind() -> bool:
    """Whether a solver still computes for nobody; an interpreter that shuts down beside it may crash."""
    return any(thread.name == NAME and thread.is_alive() for thread in threading.enumerate())
