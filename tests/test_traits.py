"""Tests that no code asks for an operator's kind or a stream's partitioning by name: it asks for their traits."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from twin.kinds.registry import BY_KIND
from twin.partitionings import PARTITIONINGS

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("twin/kinds/", "twin/partitionings.py", "optimizers/fusion/")
"""Rooms of this knowledge; fusion has kinds of its own, the paper's, some with the same names."""
PACKAGES = ("twin", "models", "optimizers", "scenarios", "streamtwin", "papers", "spark")
NAMES = {*BY_KIND, *PARTITIONINGS}
CLASSES = {each.__name__ for each in BY_KIND.values()}
OTHERS = {"phase_weights"}
"""Fields of other things, with values that have the name of a partitioning."""


def words(node: ast.AST) -> set[str]:
    """Strings in an expression that is a string or lists some."""
    parts = node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else [node]
    return {each.value for each in parts if isinstance(each, ast.Constant) and isinstance(each.value, str)}


def names(node: ast.AST) -> set[str]:
    """Names and attributes in an expression."""
    found = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    return found | {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}


def asks(node: ast.AST) -> bool:
    """Whether a node asks for a kind or a partitioning."""
    match node:
        case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, classes]):
            return bool(names(classes) & CLASSES)
        case ast.Compare():
            sides = [node.left, *node.comparators]
            of_type = any(isinstance(each, ast.Call) and "type" in names(each.func) for each in sides)
            if of_type and any(names(each) & CLASSES for each in sides):
                return True
            return any(words(each) & NAMES for each in sides) and not any(names(each) & OTHERS for each in sides)
        case ast.MatchValue(value=ast.Constant(value=str(word))):
            return word in NAMES
        case ast.MatchClass(cls=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name in CLASSES
    return False


def questions(text: str) -> Iterator[int]:
    """Yields the lines at which the text asks for a kind or a partitioning."""
    yield from (node.lineno for node in ast.walk(ast.parse(text)) if asks(node))  # type: ignore[attr-defined]


@pytest.mark.parametrize("package", PACKAGES)
def test_nobody_asks_for_a_kind_or_a_partitioning(package: str) -> None:
    found = []
    for path in sorted((ROOT / package).rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(ROOMS):
            found += [f"{name}:{line}" for line in questions(path.read_text(encoding="utf-8"))]
    assert not found


@pytest.mark.parametrize(
    "question",
    [
        "isinstance(operator, Join)",
        "isinstance(each.spec, Aggregate | query.Join)",
        "type(operator) is Sink",
        "operator.kind == 'join'",
        "'source' != row['kind']",
        "how in ('rebalance', 'hash')",
        "match operator:\n    case Filter() | Map():\n        pass",
        "match record.kind:\n    case 'source':\n        pass",
    ],
)
def test_a_question_is_found(question: str) -> None:
    assert list(questions(question))


@pytest.mark.parametrize(
    "code", ["isinstance(each, Windowed)", "{'join': 1}", "Join(name='j')", "kind == 'host'", "{'source': 1}['source']"]
)
def test_other_things_may_be_said(code: str) -> None:
    assert not list(questions(code))


def test_places_are_parsed_in_one_place() -> None:
    found = [
        path
        for package in ("twin", "models", "optimizers", "scenarios", "spark")
        for path in (ROOT / package).rglob("*.py")
    ]
    parts = re.compile(r'(?<!rstrip)\("/"\)')  # of a web address, the last one goes
    parse = [path.relative_to(ROOT).as_posix() for path in found if parts.search(path.read_text(encoding="utf-8"))]
    assert parse == ["twin/plan.py"]
