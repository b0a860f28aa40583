"""Base of all specs: frozen, strict, described once for Python, YAML, JSON and the JSON Schema."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from difflib import SequenceMatcher, get_close_matches
from functools import cache
from types import NoneType
from typing import Any, Literal, Self, TypeVar, get_args, get_origin

from pydantic import (
    BaseModel,
    ConfigDict,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)

from twin.errors import BadInput, Path, error_location, suggest, value_at
from twin.quantities import number, own_unit, units_of
from twin.words import ours, remedy, with_todays_keys


@cache
def tags(spec: type[BaseModel]) -> tuple[str, ...]:
    """Fields that tell the members of a union apart (`kind: filter`): those that can have one value only."""
    fields = spec.model_fields.items()
    annotations = ((name, field.annotation) for name, field in fields)
    return tuple(name for name, each in annotations if get_origin(each) is Literal and len(get_args(each)) == 1)


@cache
def _numeric_fields(spec: type[BaseModel]) -> frozenset[str]:
    return frozenset(name for name, field in spec.model_fields.items() if _numeric(field.annotation))


_schema = cache(lambda spec: spec.model_json_schema())
"""JSON Schema of a spec; making that of a scenario takes a tenth of a second."""


class Spec(BaseModel):
    """Frozen value, validated whole when it is made. Unknown keys, non-finite numbers and, where numbers are asked,
    true and false are errors."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        validate_default=False,
        ser_json_inf_nan="null",
        defer_build=True,
    )

    @classmethod
    def __pydantic_init_subclass__(cls, **_options: Any) -> None:
        for name in [name for name, field in cls.model_fields.items() if isinstance(field.default, property)]:
            raise TypeError(f"{cls.__name__}.{name} is a field of its base, for which a property is a mere default")
        _schema.cache_clear()  # other specs' schemas include a new kind or policy

    @model_validator(mode="before")
    @classmethod
    def _read_given(cls, data: Any) -> Any:
        """Keys by their names of today, and numbers with units as numbers."""
        if not isinstance(data, Mapping):
            return data
        fields, numbers = cls.model_fields, _numeric_fields(cls)
        if not data.keys() <= fields.keys():
            data = with_todays_keys(data, fields)
        return {name: _as_number(name, value) if name in numbers else value for name, value in data.items()}

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Copies as pydantic does, but without cached properties, so that they are computed anew."""
        copied = super().model_copy(update=update, deep=deep)
        for name in [each for each in copied.__dict__ if each not in type(self).model_fields]:
            del copied.__dict__[name]
        return copied

    @model_serializer(mode="wrap")
    def _keep_tags(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Writes a union's tag (`kind: filter`), first, even where defaults are left out: reading needs it."""
        written: dict[str, Any] = handler(self)
        fixed = {name: getattr(self, name) for name in tags(type(self))}
        return {**fixed, **written} if fixed else written


S = TypeVar("S", bound=Spec)
Schema = Mapping[str, Any]
"""JSON Schema, or a part of one."""
BOUNDS = ("greater_than", "greater_than_equal", "less_than", "less_than_equal")
"""Errors of numbers out of range, which are told with what the number means."""
MOST_TOLD = 20
"""Most mistakes that are listed."""


def parse(spec: type[S], data: object, where: str = "", line: Callable[[Path], int | None] = lambda _: None) -> S:
    """Validates `data` (plain mappings, lists, scalars) as a `spec`.

    line: the line of a path in a text, if that is known. Raises BadInput with one line a mistake: its line, its path
    inside `where` with items by their names, the value, and the nearest known key or the bound.
    """
    try:
        return spec.model_validate(data)
    except ValidationError as error:
        schema, problems = _schema(spec), error.errors()
        mistakes = _mistakes(schema, [*problems, *_untold(spec, schema, data, problems)])
        raise _refusal([_told(schema, data, each, line) for each in mistakes], where) from None


def _refusal(mistakes: list[str], where: str) -> BadInput:
    if len(mistakes) == 1:
        return BadInput(f"{where}{': ' if where else ''}{mistakes[0]}")
    kept, more = mistakes[:MOST_TOLD], len(mistakes) - MOST_TOLD
    kept += [f"and {more} more"] if more > 0 else []
    head = f"{where}{': ' if where else ''}{len(mistakes)} mistakes"
    return BadInput(f"{head}: {'; '.join(kept)}", [head, *kept])


def _untold(spec: type[Spec], schema: Schema, data: object, problems: list[Any]) -> list[Any]:
    """Further mistakes where the tag of a union (`policy: time`) is missing, so that nothing beside it was looked at:
    those under the tag whose keys are most like the given ones, but for keys that are missing."""
    tagless = [each for each in problems if each["type"] == "union_tag_not_found"]
    if not tagless:
        return []
    tagged = deepcopy(data)
    for problem in tagless:
        members = _members(schema, problem["loc"])
        node = value_at(tagged, tuple(_readable(schema, problem["loc"])))
        if members and isinstance(node, dict):
            like = {tag: _likeness(node, _properties(schema, {"$ref": to})) for tag, to in members.items()}
            node[problem["ctx"]["discriminator"].strip("'")] = max(members, key=like.__getitem__)
    try:
        spec.model_validate(tagged)
    except ValidationError as further:
        places = [each["loc"] for each in tagless]
        below = [each for each in further.errors() if any(each["loc"][: len(to)] == to for to in places)]
        return [each for each in below if each["type"] not in ("missing", "value_error")]
    return []


def _likeness(given: Iterable[str], known: Iterable[str]) -> float:
    return sum(max(SequenceMatcher(None, str(name), each).ratio() for each in known) for name in given)


def _mistakes(schema: Schema, problems: list[Any]) -> list[Any]:
    """Mistakes, one a place, those below a missing tag behind it, without consequences of others: a key that is missing
    because it is misspelt, a list that is too short because its items are wrong."""
    paths = [tuple(_readable(schema, each["loc"])) for each in problems]
    kept: dict[Path, Any] = {}
    for path, problem in zip(paths, problems, strict=True):
        kind = problem["type"]
        emptied = kind == "too_short" and any(other[: len(path)] == path and other != path for other in paths)
        if not emptied and not (kind == "missing" and _misspelt(path, paths, problems)):
            kept.setdefault(path, problem)
    number = {path: number for number, path in enumerate(kept)}
    tagless = [path for path, problem in kept.items() if problem["type"] == "union_tag_not_found"]
    behind = {path: next((number[to] for to in tagless if path[: len(to)] == to), number[path]) for path in kept}
    return [kept[path] for path in sorted(kept, key=behind.__getitem__)]


def _misspelt(path: Path, paths: list[Path], problems: list[Any]) -> bool:
    """Whether an unknown key beside a missing one resembles it, or is another word for it. path: of the missing key."""
    place = next((part for part in reversed(path[:-1]) if isinstance(part, str)), "")
    unknown = [each for each, problem in zip(paths, problems, strict=True) if problem["type"] == "extra_forbidden"]
    beside = [str(each[-1]) for each in unknown if each[:-1] == path[:-1]]
    return bool(get_close_matches(str(path[-1]), beside, n=1, cutoff=0.6)) or any(
        re.search(rf"\b{path[-1]}\b", ours(each, place)) for each in beside
    )


def _told(schema: Schema, data: object, problem: Any, line: Callable[[Path], int | None]) -> str:
    path = tuple(_readable(schema, problem["loc"]))
    said = _explain(schema, problem)
    of_parts = problem["type"] == "value_error"
    to = error_location(said, data, path) if of_parts else path
    number = line(to) if to or not of_parts else None
    place = ": ".join(filter(None, ["" if number is None else f"line {number}", ".".join(_named(data, path))]))
    return f"{place + ': ' if place else ''}{said}"


def _named(data: object, path: Path) -> Iterable[str]:
    """Path with items by their names, as --set takes it; items without one by their numbers."""
    node: Any = data
    for part in path:
        item = isinstance(part, int) and isinstance(node, list | tuple) and -len(node) <= part < len(node)
        node = node[part] if item else node.get(part) if isinstance(node, Mapping) else None
        name = node.get("name") if item and isinstance(node, Mapping) else None
        yield str(part) if name is None else str(name)


def _explain(schema: Schema, problem: Any) -> str:
    kind, value = problem["type"], problem.get("input")
    name = str(problem["loc"][-1]) if problem["loc"] else ""
    if kind == "extra_forbidden":
        node, place = _node(schema, problem["loc"][:-1]), _place(schema, problem["loc"][:-1])
        known = _properties(schema, node)
        within = [part for part in known if name in _properties(schema, _descend(schema, node, part))]
        said = remedy(name, known, place, value)
        if len(within) == 1 and said == suggest(name, known):  # no word of others, but one level too high
            said = f"write {within[0]}: {{{name}: ...}}"
        return f"unknown key {name!r}; {said}"
    if kind == "missing":
        return f"{name!r} is missing; add it"
    if kind.startswith("union_tag"):
        context = problem["ctx"]
        key, known = context["discriminator"].strip("'"), context.get("expected_tags", "")
        if kind == "union_tag_not_found":
            members = ", ".join(_members(schema, problem["loc"]))
            return f"{key!r} is missing; add it{': one of ' if members else ''}{members}"
        others = [tag.strip(" '") for tag in known.split(",")]
        return f"unknown {key} {context['tag']!r}; {remedy(context['tag'], others, key)}"
    message = problem["msg"].removeprefix("Value error, ").replace("Input should be", "should be")
    if kind == "value_error":
        return message
    if kind in ("float_parsing", "int_parsing") and isinstance(value, str):
        units = units_of(next((part for part in reversed(problem["loc"]) if isinstance(part, str)), ""))
        sort = "number" if kind == "float_parsing" else "whole number"
        form = f", alone or with {units}" if units else f" of {own}, without a unit" if (own := own_unit(name)) else ""
        return f"should be a {sort}{form}, got {value!r}"
    if kind in ("too_short", "too_long") and isinstance(value, list | tuple):
        context = problem["ctx"]
        limit = f"at least {context['min_length']}" if kind == "too_short" else f"at most {context['max_length']}"
        return f"should have {limit} items, has {len(value)}"
    if kind == "string_pattern_mismatch":
        message = "a name may have letters, digits and _ . : @ # - alone"
    if kind in ("tuple_type", "list_type"):
        message = "should be a list"
    if kind == "invalid_key":
        return f"{value!r} is no word, as keys are; numbers have no comma: write 1000, or 1k"
    if kind in ("model_type", "dict_type", "model_attributes_type"):
        keys = _properties(schema, _node(schema, problem["loc"]))
        message = f"should be a mapping of keys to values{f', such as {{{keys[0]}: ...}}' if keys else ''}"
    if isinstance(value, str | int | float | bool) or value is None:
        means = _node(schema, problem["loc"]).get("description", "") if kind in BOUNDS else ""
        instead = ours(value, name) if kind == "literal_error" and isinstance(value, str) else ""
        return f"{message}, got {value!r}{f' ({means})' if means else ''}{'; ' if instead else ''}{instead}"
    return f"{message}, got a {type(value).__name__}"


def _node(schema: Schema, path: Path) -> Schema:
    """Part of the schema to which `path` leads."""
    node = schema
    for part in path:
        node = _descend(schema, node, part)
    return node


def _members(schema: Schema, path: Path) -> Mapping[str, str]:
    """Members of the union to which `path` leads, by their tags."""
    found: Mapping[str, str] = _resolve(schema, _node(schema, path)).get("discriminator", {}).get("mapping", {})
    return found


def _place(schema: Schema, path: Path) -> str:
    """Last key of a path, without numbers of items."""
    return next((part for part in reversed([*_readable(schema, path)]) if isinstance(part, str)), "")


def _resolve(schema: Schema, node: Schema) -> Schema:
    reference = node.get("$ref")
    return schema["$defs"][reference.rsplit("/", 1)[-1]] if reference else node


def _alternatives(schema: Schema, node: Schema) -> list[Schema]:
    node = _resolve(schema, node)
    return [_resolve(schema, choice) for choice in node.get("oneOf", node.get("anyOf", [node]))]


def _descend(schema: Schema, node: Schema, part: int | str) -> Schema:
    if isinstance(part, int):
        return next((choice["items"] for choice in _alternatives(schema, node) if "items" in choice), {})
    resolved = _resolve(schema, node)
    members = resolved.get("discriminator", {}).get("mapping", {})
    if part in members:
        return {"$ref": members[part]}
    for choice in _alternatives(schema, node):
        if part in choice.get("properties", {}):
            return choice["properties"][part]
        if isinstance(choice.get("additionalProperties"), dict):
            return choice["additionalProperties"]
    return node


def _properties(schema: Schema, node: Schema) -> list[str]:
    """Keys of a part, or of all members of a union, in their order."""
    return [*dict.fromkeys(name for choice in _alternatives(schema, node) for name in choice.get("properties", {}))]


def _readable(schema: Schema, path: Path) -> Iterable[int | str]:
    """Path without what pydantic adds to it: the tag of a union ('filter', 'count'), the name of a validator."""
    node = schema
    for part in path:
        choices = [_resolve(schema, node), *_alternatives(schema, node)]
        members = {tag for choice in choices for tag in choice.get("discriminator", {}).get("mapping", {})}
        if part not in members and not _VALIDATOR.match(str(part)):
            yield part
        node = _descend(schema, node, part)


_VALIDATOR = re.compile(r"(function|tuple|str|dict|list|literal)\b.*[\[-]|str$|constrained-str$")


def literal_values(alias: object) -> tuple[str, ...]:
    """Strings of a `Literal[...]` alias, in order."""
    return tuple(get_args(alias))


# true and false where numbers are asked: Python takes True for 1, and so would a scenario with `rate_per_s: true` ---


def _numeric(annotation: Any) -> bool:
    """Whether an annotation allows numbers only, also in the items of a list or the values of a mapping."""
    kinds = set(_leaves(annotation)) - {NoneType, Ellipsis}
    return bool(kinds) and kinds <= {int, float}


def _as_number(name: str, value: Any) -> Any:
    """Replaces texts such as `20k` by numbers, and True by 'true': a text is refused as a number, with a message that
    says what was written, and where. name: its ending says the unit of the number."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        try:
            return number(value, name)
        except ValueError:
            return value
    if isinstance(value, list | tuple):
        return type(value)(_as_number(name, item) for item in value)
    if isinstance(value, Mapping):
        return {key: _as_number(name, item) for key, item in value.items()}
    return value


def _leaves(annotation: Any) -> Iterable[Any]:
    """Types that an annotation is made of, without containers, names of a mapping, bounds and other notes."""
    parts = get_args(annotation)
    if hasattr(annotation, "__metadata__"):
        parts = parts[:1]
    elif parts and isinstance(annotation.__origin__ if hasattr(annotation, "__origin__") else None, type):
        parts = parts[1:] if issubclass(annotation.__origin__, Mapping) else parts
    return (leaf for part in parts for leaf in _leaves(part)) if parts else (annotation,)
