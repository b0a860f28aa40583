"""Allowed imports between packages and between their rooms, read off the import statements, wherever they stand."""

from __future__ import annotations

import ast
import sys
from functools import cache
from pathlib import Path

import networkx as nx
import pytest

ROOT = Path(__file__).resolve().parent.parent
ALLOWED = {
    "twin": set(),
    "models": {"twin"},
    "optimizers": {"twin"},
    "spark": {"twin"},
    "figures": set(),
    "scenarios": {"twin", "models", "optimizers", "spark", "figures"},
    "streamtwin": {"twin", "models", "optimizers", "spark", "figures", "scenarios", "papers"},
    "papers": {"twin", "models", "optimizers", "spark", "figures", "scenarios", "streamtwin"},
}
OUTSIDE = {
    "twin": {"llvmlite", "networkx", "numba", "numpy", "pyarrow", "pydantic", "simpy"},
    "figures": {"numpy", "matplotlib"},
}
"""Foreign imports that are allowed in packages where they are limited as well."""
GLOBAL_STATE = {"matplotlib.pyplot", "random"}


@cache
def imports(path: Path) -> list[str]:
    """Full dotted names of everything that a file imports."""
    found = list[str]()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import; write the full name"
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return found


def files(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def first(name: str) -> str:
    return name.partition(".")[0]


@pytest.mark.parametrize("package", ALLOWED)
def test_package_imports_only_what_is_below_it(package: str) -> None:
    assert files(package)
    upward = {
        f"{path.relative_to(ROOT)} imports {name}"
        for path in files(package)
        for name in imports(path)
        if first(name) in ALLOWED and first(name) not in ALLOWED[package] | {package}
    }
    assert not upward


def test_runs_know_nothing_of_the_rate_model() -> None:
    """Exact runs judge the rate model, so no file that `simulate` needs imports it, also not through others."""
    known = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in files("twin")}
    needed, to_read = set[str](), ["twin.simulation"]
    while to_read:
        module = to_read.pop()
        if module not in needed:
            needed.add(module)
            used = (name if name in known else name.rpartition(".")[0] for name in imports(known[module]))
            to_read += [name for name in used if name in known]
    assert len(needed) > 70
    assert not {module for module in needed if module.startswith("twin.rates")}


def room(name: str) -> str | None:
    """Room of a module: a folder of its package, or a file at the package's top; None for the package itself."""
    package, *rest = name.split(".")
    if not rest:
        return None
    inner = 2 if (package, rest[0]) == ("streamtwin", "connect") else 1
    place = ROOT.joinpath(package, rest[0])
    if not (place.is_dir() or place.with_suffix(".py").exists()):
        return None
    return ".".join((package, *rest[:inner]))


def rooms() -> nx.DiGraph:
    """Graph of the rooms that import each other, imports for types alone included; edges have statements as `why`."""
    graph = nx.DiGraph()
    for path in (path for package in ALLOWED for path in files(package)):
        mine = room(".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"))
        for name in imports(path):
            other = room(name) if first(name) in ALLOWED else None
            if mine and other and mine != other:
                graph.add_edge(mine, other, why=f"{path.relative_to(ROOT)} imports {name}")
    return graph


def test_no_room_stands_on_itself() -> None:
    graph = rooms()
    assert len(graph) > 100
    circles = [graph.subgraph(members) for members in nx.strongly_connected_components(graph) if len(members) > 1]
    assert not [[graph.edges[edge]["why"] for edge in nx.find_cycle(circle)] for circle in circles]


@pytest.mark.parametrize("package", OUTSIDE)
def test_package_imports_only_its_libraries(package: str) -> None:
    known = OUTSIDE[package] | {package} | sys.stdlib_module_names
    foreign = {
        f"{path.relative_to(ROOT)} imports {name}"
        for path in files(package)
        for name in imports(path)
        if first(name) not in known
    }
    assert not foreign


@pytest.mark.parametrize("package", ALLOWED)
def test_nothing_global(package: str) -> None:
    found = {
        f"{path.relative_to(ROOT)} imports {name}"
        for path in files(package)
        for name in imports(path)
        if any(name == banned or name.startswith(f"{banned}.") for banned in GLOBAL_STATE)
    }
    assert not found


@pytest.mark.parametrize("package", sorted(ALLOWED.keys() - {"papers"}))
def test_every_package_is_declared(package: str) -> None:
    declared = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for folder in {path.parent.relative_to(ROOT) for path in files(package)}:
        assert f'"{".".join(folder.parts)}"' in declared, f"pyproject.toml does not list {folder}"
