"""Values as the command line writes them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from scenarios.files.yaml_text import parse_text
from twin.errors import BadInput

_WORD = re.compile(r"[\w./-]+")


def flow(value: Any) -> str:
    """A value on one line of YAML, with as few quotes as it takes."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{flow(key)}: {flow(part)}" for key, part in value.items()) + "}"
    if isinstance(value, str):
        return value if _WORD.fullmatch(value) and _read(value) == value else json.dumps(value)
    if isinstance(value, Sequence):
        return "[" + ", ".join(map(flow, value)) + "]"
    if isinstance(value, float):
        return f"{int(value)}" if value.is_integer() and abs(value) < 2**53 else repr(value)
    return json.dumps(value)


def _read(text: str) -> Any:
    try:
        return parse_text(text, "")
    except BadInput:
        return None
