"""Errors with a message of one line, for all that is no fault of the program.

Everything a person can mend (a file, a flag, a value) raises `BadInput`; the command line prints its message and exits
with 2. Work that the machine ends raises `Unfinished` and exits with 1. Any other exception is a fault of the program
and exits with 1 as well.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from itertools import accumulate

MOST_CHARACTERS = 700
"""Most characters of a message; longer ones quote a long value."""
MOST_OF_NAMES = 400
"""Most characters of a list of known names."""


class BadInput(ValueError):  # noqa: N818  # it names the cause, as KeyboardInterrupt does
    """Mistake of a user, in one line: where, the given value, and the remedy. mistakes: of several, a line each."""

    def __init__(self, message: str, mistakes: Sequence[str] = ()) -> None:
        super().__init__(one_line(message))
        self.mistakes = tuple(one_line(each) for each in mistakes)


class TooMuch(BadInput):
    """Run that would take hours, or more memory than a run may have."""


def one_line(text: str) -> str:
    """Returns `text` in one line; of a very long one the ends, where its place and its remedy are."""
    line = " ".join(text.split())
    if len(line) <= MOST_CHARACTERS:
        return line
    half = MOST_CHARACTERS // 2
    return f"{line[:half]} [... {len(line) - 2 * half} characters ...] {line[-half:]}"


class Unfinished(RuntimeError):  # noqa: N818  # it names a state
    """Work that was ended from outside, in one line: by what, what is kept, how to go on."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


def suggest(word: str, known: Iterable[str]) -> str:
    """Remedy for an unknown `word`: the nearest known one, or the list of known ones."""
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"known: {_some(names)}" if names else "there are none"


def _some(names: Sequence[str]) -> str:
    """List of all names, or of as many as can be read at a glance."""
    ends = accumulate(len(name) + 2 for name in names)
    shown = max(1, sum(end <= MOST_OF_NAMES for end in ends))
    more = len(names) - shown
    return ", ".join(names[:shown]) + (f" and {more} more" if more else "")
