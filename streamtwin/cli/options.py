"""Options that several commands share, as classes: a command's parameter of such a type stands for all its fields."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import is_dataclass
from functools import wraps
from typing import Any, get_type_hints

import typer


class Options:
    """The base of such a class. What its constructor takes, each annotated as an option, is what users can give."""


def add(app: typer.Typer, name: str, panel: str, function: Callable[..., None]) -> None:
    """A command, with an option for each field of its groups of options; panel: its heading in the help."""
    app.command(name, rich_help_panel=panel)(ungrouped(function))


def ungrouped(function: Callable[..., None]) -> Callable[..., None]:
    """The same function with the fields of its groups of options as parameters of its own, after the others."""
    parameters = {each.name: each for each in _parameters(function)}
    groups: dict[str, type[Options]] = {}
    for name, parameter in [*parameters.items()]:
        kind = parameter.annotation
        if isinstance(kind, type) and issubclass(kind, Options):
            groups[name] = kind
            del parameters[name]
    own = [*parameters.values(), *(field for kind in groups.values() for field in _parameters(kind))]

    @wraps(function)
    def called(**given: Any) -> None:
        for name, kind in groups.items():
            given[name] = kind(**{field.name: given.pop(field.name) for field in _parameters(kind)})
        function(**given)

    keywords = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own]
    called.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]
    called.__annotations__ = {each.name: each.annotation for each in keywords}
    return called


def _parameters(of: Callable[..., Any]) -> list[inspect.Parameter]:
    """With their annotations as objects."""
    written = vars(of)["__init__"] if isinstance(of, type) and not is_dataclass(of) else of
    hints = get_type_hints(written, include_extras=True)  # of a dataclass, each field's by the module of its class
    return [each.replace(annotation=hints[each.name]) for each in inspect.signature(of).parameters.values()]
