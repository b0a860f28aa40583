"""Location in a document of a mistake that a message about the whole of it describes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Path = tuple[int | str, ...]
"""Path to a value: keys, and numbers of items."""
_START = re.compile(r"[a-z_]+(?:\.[\w@#-]+)*")
_QUOTED = re.compile(r"'([^']+)'")


def error_location(message: str, data: object, path: Path) -> Path:
    """Extends the path by the beginning of the message (`plan.placement.out: ...`) and, below that, by the first place
    of the first word that it quotes (`unknown host 'h9'`). Returns the path itself if the data have no such parts."""
    start = _START.match(message)
    whole = (*path, *_known(_at(data, path), start.group().split(".") if start and not path else ()))
    quoted = _QUOTED.search(message)
    return whole + next(_places(_at(data, whole), quoted.group(1)), ()) if whole and quoted else whole


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


def _at(node: Any, path: Path) -> Any:
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
