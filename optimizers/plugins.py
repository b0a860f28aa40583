"""Optimizers of users: a class in a Python file, or an entry point of an installed package.

`my_file.py:MyOptimizer` names a class, or an instance, that satisfies `interface.Optimizer`; a package names its own
in the entry-point group `streamtwin.optimizers`, which are the names they are asked for by.
"""

from __future__ import annotations

import importlib.util
import math
import sys
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from optimizers.interface import Optimizer, Problem, Solution
from twin.errors import BadInput, suggest

GROUP = "streamtwin.optimizers"
NEEDED = "needs a `name` and a method `solve(problem)` that returns a Solution"


class AnswerError(Exception):
    """The answer of an optimizer is no valid solution."""


def of_others(optimizer: Optimizer) -> bool:
    """Whether an optimizer's class is not part of this project."""
    return type(optimizer).__module__.partition(".")[0] not in ("optimizers", "scenarios")


def fitting(problem: Problem, found: object) -> Solution:
    """Checked answer of an optimizer. Raises AnswerError if it is no solution, or if its plan does not fit the job."""
    if not isinstance(found, Solution):
        raise AnswerError(f"solve returned {type(found).__name__}, not a Solution")
    if math.isnan(found.objective):
        raise AnswerError("its objective is not a number")
    try:
        problem.scenario.with_plan(found.plan)
    except BadInput as error:
        raise AnswerError(f"its plan does not fit the job: {error}") from error
    return found


def installed() -> dict[str, EntryPoint]:
    """Entry points of the optimizers of installed packages, by name; nothing is imported."""
    return {point.name: point for point in entry_points(group=GROUP)}


def is_file(name: str) -> bool:
    """Whether a name means a class in a Python file."""
    return ".py:" in name


def from_file(name: str) -> Optimizer:
    """Optimizer of `FILE.py:NAME`. Raises BadInput with the reason if it cannot be loaded."""
    file, _, attribute = name.rpartition(":")
    path = Path(file)
    if not path.is_file():
        raise BadInput(f"--optimizer {name!r}: there is no file {file!r}")
    own = f"{path.stem}_optimizers"
    spec = importlib.util.spec_from_file_location(own, path)
    if spec is None or spec.loader is None:
        raise BadInput(f"--optimizer {name!r}: {file!r} is no Python module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[own] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise BadInput(f"--optimizer {name!r} cannot be loaded: {type(error).__name__}: {error}") from error
    public = [member for member in vars(module) if not member.startswith("_")]
    if attribute not in public:
        raise BadInput(f"--optimizer {name!r}: {file!r} has no {attribute!r}; {suggest(attribute, public)}")
    return _made(name, getattr(module, attribute))


def from_package(point: EntryPoint) -> Optimizer:
    """Optimizer of an entry point. Raises BadInput with the reason if it cannot be loaded."""
    try:
        found = point.load()
    except Exception as error:
        raise BadInput(f"optimizer {point.name!r} ({point.value}) cannot be loaded: {error}") from error
    return _made(point.name, found)


def _made(name: str, found: Any) -> Optimizer:
    try:
        made = found() if isinstance(found, type) else found
    except Exception as error:
        raise BadInput(f"optimizer {name!r} cannot be made: {type(error).__name__}: {error}") from error
    if not isinstance(getattr(made, "name", None), str) or not callable(getattr(made, "solve", None)):
        raise BadInput(f"optimizer {name!r} {NEEDED}")
    optimizer: Optimizer = made
    return optimizer
