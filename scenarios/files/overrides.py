"""`--set PATH=VALUE`: replaces values of a scenario. Values are read as YAML."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from scenarios.files.yaml_text import parse_text
from twin.errors import BadInput
from twin.overrides import put_all
from twin.scenario import Scenario


def set_value(scenario: Scenario, assignment: str, flag: str = "--set") -> Scenario:
    """The scenario with one value replaced, as `path.to.key=value` says. Raises BadInput as `set_values` does."""
    return set_values(scenario, [assignment], flag)


def set_values(scenario: Scenario, assignments: Iterable[str], flag: str = "--set") -> Scenario:
    """The scenario with all assignments, applied in order. flag: the option that they came from, for errors.

    Raises BadInput if one cannot be read, if a path leads nowhere (with the nearest key), or if the result is not a
    valid scenario.
    """
    return put_all(scenario, [_read(assignment, flag) for assignment in assignments], flag)


def _read(assignment: str, flag: str) -> tuple[str, Any]:
    path, text = parted(assignment, flag, "PATH=VALUE, such as run.horizon_s=60")
    return path, parse_text(text, f"{flag} {path}")


def parted(text: str, flag: str, form: str, *, empty: bool = True) -> tuple[str, str]:
    """What stands before and after `=`. empty: whether nothing may stand after it.

    Raises BadInput, saying that it is written as `form`, where a part is missing.
    """
    left, equals, right = (part.strip() for part in text.partition("="))
    if not left or not equals or not (right or empty):
        raise BadInput(f"{flag} {text}: write {form}")
    return left, right
