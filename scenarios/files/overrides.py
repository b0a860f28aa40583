"""Replaces values of a scenario as `--set PATH=VALUE` does. Values are read as YAML."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from scenarios.files.yaml_text import parse_text
from twin.errors import BadInput
from twin.overrides import put_all
from twin.scenario import Scenario


def set_value(scenario: Scenario, assignment: str, flag: str = "--set") -> Scenario:
    """Scenario with one value replaced, given as `path.to.key=value`. Raises BadInput as `set_values` does."""
    return set_values(scenario, [assignment], flag)


def set_values(scenario: Scenario, assignments: Iterable[str], flag: str = "--set") -> Scenario:
    """Scenario with all assignments, applied in order. flag: the option that they came from, for errors.

    Raises BadInput if an assignment cannot be read, if a path does not exist (with the nearest key), or if the result
    is not a valid scenario.
    """
    return put_all(scenario, [_read(assignment, flag) for assignment in assignments], flag)


def _read(assignment: str, flag: str) -> tuple[str, Any]:
    path, text = parted(assignment, flag, "PATH=VALUE, such as run.horizon_s=60")
    return path, parse_text(text, f"{flag} {path}")


def parted(text: str, flag: str, form: str, *, empty: bool = True) -> tuple[str, str]:
    """Parts of a text before and after `=`. empty: whether the second part may be empty.

    Raises BadInput, which shows `form` as the way to write it, if a part is missing.
    """
    left, equals, right = (part.strip() for part in text.partition("="))
    if not left or not equals or not (right or empty):
        raise BadInput(f"{flag} {text}: write {form}")
    return left, right
