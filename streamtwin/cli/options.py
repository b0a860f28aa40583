"""Groups of options that several commands share: a parameter of such a class stands for all of its fields."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import is_dataclass
from functools import wraps
from typing import Any, get_type_hints

import typer


class Options:
    """Base class of groups of options. Each argument of the constructor is annotated as an option."""


def add(app: typer.Typer, name: str, panel: str | None, function: Callable[..., None]) -> None:
    """Adds a command, with an option for each field of its groups of options. panel: its heading in the help."""
    app.command(name, rich_help_panel=panel)(ungrouped(function))


def ungrouped(function: Callable[..., None]) -> Callable[..., None]:
    """Function with each group of options replaced by its fields, after all other parameters."""
    parameters = {parameter.name: parameter for parameter in _parameters(function)}
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

    keywords = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
    called.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in keywords}
    return called


def _parameters(of: Callable[..., Any]) -> list[inspect.Parameter]:
    """Parameters of a function or class, with annotations as objects rather than text."""
    written = vars(of)["__init__"] if isinstance(of, type) and not is_dataclass(of) else of
    hints = get_type_hints(written, include_extras=True)  # resolves a field in the module of its class
    parameters = inspect.signature(of).parameters.items()
    return [parameter.replace(annotation=hints[name]) for name, parameter in parameters]
