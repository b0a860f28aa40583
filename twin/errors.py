"""Errors with a message of one line, for all that is no fault of the program, and where in a document they are."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import PurePath
from traceback import extract_tb
from typing import Any

# errors --------------------------------------------------------------------------------------------------------------
# Errors with a message of one line, for all that is no fault of the program.
#
# Everything a person can mend (a file, a flag, a value) raises `BadInput`; the command line prints its message and
# exits with 2. Work that the machine ends raises `Unfinished` and exits with 1. Any other exception is a fault of the
# program and exits with 1 as well.


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


def raised(error: Exception) -> str:
    """What code of somebody's own raised, and in which of its lines: the innermost one that is no installed package."""
    frames = [each for each in extract_tb(error.__traceback__) if "site-packages" not in each.filename]
    place = f" ({PurePath(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{place}"


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
    return f"known: {some_of(names)}" if names else "there are none"


def some_of(names: Sequence[str]) -> str:
    """List of all names, or of as many as can be read at a glance."""
    ends = accumulate(len(name) + 2 for name in names)
    shown = max(1, sum(end <= MOST_OF_NAMES for end in ends))
    more = len(names) - shown
    return ", ".join(names[:shown]) + (f" and {more} more" if more else "")


# where in a document -------------------------------------------------------------------------------------------------
# Location in a document of a mistake that a message about the whole of it describes.


Path = tuple[int | str, ...]
"""Path to a value: keys, and numbers of items."""
_START = re.compile(r"[a-z_]+(?:\.[\w@#-]+)*")
_QUOTED = re.compile(r"'([^']+)'")


def error_location(message: str, data: object, path: Path) -> Path:
    """Extends the path by the beginning of the message (`plan.placement.out: ...`) and, below that, by the first place
    of the first word that it quotes (`unknown host 'h9'`). Returns the path itself if the data have no such parts."""
    start = _START.match(message)
    whole = (*path, *_known(value_at(data, path), start.group().split(".") if start and not path else ()))
    quoted = _QUOTED.search(message)
    return whole + next(_places(value_at(data, whole), quoted.group(1)), ()) if whole and quoted else whole


def _known(node: Any, parts: Sequence[str]) -> Iterator[int | str]:
    """First parts of a path, as far as they exist."""
    for part in parts:
        key = int(part) if part.isdigit() and isinstance(node, list) else part
        if not _has(node, key):
            return
        yield key
        node = node[key]


def _has(node: Any, key: int | str) -> bool:
    return 0 <= key < len(node) if isinstance(node, list) and isinstance(key, int) else _is_key(node, key)


def _is_key(node: Any, key: object) -> bool:
    return isinstance(node, Mapping) and key in node


def value_at(node: Any, path: Path) -> Any:
    """Value to which a path leads; None if it leads nowhere."""
    for part in path:
        if not _has(node, part):
            return None
        node = node[part]
    return node


def _places(node: Any, word: str) -> Iterator[Path]:
    """Paths to keys and values that equal the word, in the order of the document."""
    items = node.items() if isinstance(node, Mapping) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        if word in (key, value):
            yield (key,)
        yield from ((key, *rest) for rest in _places(value, word))
