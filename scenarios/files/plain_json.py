"""Values as JSON can hold them."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any


def plain(value: Any) -> Any:
    """`value` as JSON can hold it: numpy numbers as Python's, paths as text, infinities and NaN as null."""
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, os.PathLike):
        return str(value)
    return value
