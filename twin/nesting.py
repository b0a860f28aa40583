"""How deep texts may nest: counted before anything is built, as parsers and all that reads their data recurse.

A text of a few kilobytes nests tens of thousands deep, which ends the process where a parser in C recurses.
"""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np

DEEPEST = 100
"""Deepest nesting of lists and mappings that is read, in JSON and YAML. Scenarios nest some ten deep."""
TOO_DEEP = f"it nests lists and mappings more than {DEEPEST} deep; flatten it"

_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*"')
_STEPS = np.zeros(256, dtype=np.int64)
_STEPS[[*b"[{"]], _STEPS[[*b"]}"]] = 1, -1


def parse_json(text: str | bytes) -> Any:
    """Value of a JSON text. Raises ValueError if it is no JSON, or nests more than DEEPEST deep."""
    content = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    brackets = np.frombuffer(_TEXT.sub(b"", content), dtype=np.uint8)
    if np.cumsum(_STEPS[brackets]).max(initial=0) > DEEPEST:
        raise ValueError(TOO_DEEP)
    return json.loads(text)
