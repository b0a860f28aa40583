"""Options of commands, and groups of options: a parameter of such a class stands for all of its fields.

A field is an option if `option` makes it, or if it is annotated as one (`Annotated[int, typer.Option(...)]`). An option
that is a sequence may be repeated.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import wraps
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer

OPTION = "option"
"""Key of what describes an option in the metadata of a field."""


class Options:
    """Base class of groups of options."""


@dataclass(frozen=True)
class Written:
    """Form of a value on the command line. read: makes the value of it. kind: its type there. default: what stands
    there for the default of the field. python: help on the form in Python, if the option's does not tell."""

    read: Callable[[Any], Any]
    kind: Any = str | None
    default: Any = None
    python: str = ""


def option(
    default: Any,
    help: str,  # noqa: A002  # as typer calls it
    metavar: str | None = None,
    flag: str | None = None,
    *,
    read: Callable[[Any], Any] | None = None,
    kind: Any = str | None,
    shown: Any = None,
    python: str = "",
    **limits: Any,
) -> Any:
    """Field of a group of options, by its default and its help. flag: its name, if not that of the field. read, kind,
    shown, python: as in `Written`, if people write it in another form; limits: such as `min`, as `typer.Option` has
    them."""
    about = [typer.Option(*filter(None, [flag]), metavar=metavar, help=help, **limits)]
    written = [] if read is None else [Written(read, kind, shown, python)]
    return field(default=default, metadata={OPTION: (*about, *written)})


def add(app: typer.Typer, name: str, panel: str | None, function: Callable[..., None]) -> None:
    """Adds a command, with an option for each field of its groups of options. panel: its heading in the help."""
    app.command(name, rich_help_panel=panel)(ungrouped(function))


def ungrouped(function: Callable[..., None]) -> Callable[..., None]:
    """Function of the command line, which has the fields of each group of options in the place of the group. Without a
    description of its own it has that of its first group."""

    @wraps(function)
    def called(**given: Any) -> None:
        function(**_arguments(function, given))

    written, groups = _written(function), (each.annotation for each in parameters(function))
    called.__doc__ = function.__doc__ or next(group.__doc__ for group in groups if _is_group(group))
    called.__signature__ = inspect.Signature(written)  # type: ignore[attr-defined]
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in written}
    return called


def _written(of: Callable[..., Any]) -> list[inspect.Parameter]:
    """Parameters on the command line of a function or class, those of its groups in their place."""
    found = list[inspect.Parameter]()
    for parameter in parameters(of):
        if _is_group(parameter.annotation):
            found += _written(parameter.annotation)
        elif get_origin(parameter.annotation) is Annotated:
            found.append(_on_command_line(parameter))
    return found


def _arguments(of: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a function or class from the values of its parameters on the command line."""
    found = dict[str, Any]()
    for parameter in parameters(of):
        name, kind = parameter.name, parameter.annotation
        if _is_group(kind):
            found[name] = kind(**_arguments(kind, given))
        elif get_origin(kind) is Annotated and not _left_out(parameter, given[name]):
            form = _form(kind)
            found[name] = given[name] if form is None else form.read(given[name])
    return found


def _left_out(parameter: inspect.Parameter, value: Any) -> bool:
    """Whether an option was not given that has another default in Python."""
    return value is None and parameter.default is not inspect.Parameter.empty


def _on_command_line(parameter: inspect.Parameter) -> inspect.Parameter:
    kind, *about = get_args(parameter.annotation)
    form, default = _form(parameter.annotation), parameter.default
    if form is not None:
        kind, default = form.kind, form.default
    elif get_origin(kind) is Sequence:
        kind, default = list[str] | None, None
    shown = [each for each in about if not isinstance(each, Written)]
    return parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=Annotated[kind, *shown], default=default)


def _form(annotation: Any) -> Written | None:
    return next((each for each in get_args(annotation) if isinstance(each, Written)), None)


def _is_group(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Options)


def parameters(of: Callable[..., Any]) -> list[inspect.Parameter]:
    """Parameters of a function or class, with annotations as objects rather than text."""
    written = vars(of)["__init__"] if isinstance(of, type) and not is_dataclass(of) else of
    hints = get_type_hints(written, include_extras=True)  # resolves a field in the module of its class
    for each in fields(of) if is_dataclass(of) else ():
        if OPTION in each.metadata:
            hints[each.name] = Annotated[hints[each.name], *each.metadata[OPTION]]
    parameters = inspect.signature(of).parameters.items()
    return [parameter.replace(annotation=hints[name]) for name, parameter in parameters]


def seconds(text: str | float) -> float:
    """Seconds that an option gives, such as 90, 500ms or 2min; a default is a number already."""
    from twin.quantities import number

    try:
        return number(str(text), "_s")
    except ValueError:
        raise typer.BadParameter("no duration; write seconds, or a unit as in 500ms or 2min") from None


def share(text: str) -> float:
    """Share that an option gives, such as 0.2 or 20%."""
    from twin.quantities import number

    try:
        return number(text)
    except ValueError:
        raise typer.BadParameter("no share; write it as in 0.2 or 20%") from None


def listed(text: str) -> tuple[str, ...]:
    """Names that an option lists, separated by commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())
