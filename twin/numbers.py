"""Truths where numbers are asked: Python takes True for 1, and so would a scenario that says `rate_per_s: true`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import NoneType
from typing import Any, get_args


def numeric(annotation: Any) -> bool:
    """Whether nothing but numbers is asked, also of the items of a list or the values of a mapping."""
    kinds = set(_leaves(annotation)) - {NoneType, Ellipsis}
    return bool(kinds) and kinds <= {int, float}


def without_truths(value: Any) -> Any:
    """`value` with 'true' for True: a word is no number, and the refusal of it tells what was written, and where."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return type(value)(without_truths(each) for each in value)
    if isinstance(value, Mapping):
        return {name: without_truths(each) for name, each in value.items()}
    return value


def _leaves(annotation: Any) -> Iterable[Any]:
    """The types that an annotation is made of, without containers, names of a mapping, bounds and other notes."""
    parts = get_args(annotation)
    if hasattr(annotation, "__metadata__"):
        parts = parts[:1]
    elif parts and isinstance(annotation.__origin__ if hasattr(annotation, "__origin__") else None, type):
        parts = parts[1:] if issubclass(annotation.__origin__, Mapping) else parts
    return (leaf for part in parts for leaf in _leaves(part)) if parts else (annotation,)
