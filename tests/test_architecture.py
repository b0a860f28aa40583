"""The import arrows between the packages, read off the import statements (wherever they stand in a file)."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ALLOWED = {
    "twin": set(),
    "models": {"twin"},
    "optimizers": {"twin"},
    "spark": {"twin"},
    "figures": set(),
    "scenarios": {"twin", "models", "optimizers", "spark", "figures"},
    "streamtwin": {"twin", "optimizers", "scenarios"},
}
OUTSIDE = {
    "twin": {"llvmlite", "networkx", "numba", "numpy", "pyarrow", "pydantic", "simpy"},
    "figures": {"numpy", "matplotlib"},
}
"""Packages whose foreign imports are limited as well."""
FACADE = {"twin.job", "twin.run", "twin.simulation", "twin.service_times"}
"""Files at the top of `twin` that stand on its rooms; the others there are its vocabulary, which stands on nothing."""

BELOW = {
    "twin": {"twin.arrivals", "twin.kinds", "twin.partitionings", "twin.profiles"},
    "twin.arrivals": {"twin"},
    "twin.kinds": {"twin"},
    "twin.partitionings": {"twin"},
    "twin.profiles": {"twin", "twin.kinds"},
    "twin.job": {"twin", "twin.kinds", "twin.partitionings", "twin.profiles"},
    "twin.rates": {"twin", "twin.kinds", "twin.job"},
    "twin.engine": {
        *("twin", "twin.kinds", "twin.arrivals", "twin.partitionings", "twin.profiles"),
        "twin.rates",
    },
    "twin.wiring": {
        "twin",
        "twin.kinds",
        "twin.partitionings",
        "twin.profiles",
        "twin.job",
        "twin.rates",
        "twin.engine",
    },
    "twin.change": {"twin", "twin.kinds", "twin.profiles", "twin.engine", "twin.wiring"},
    "twin.corpus": {"twin", "twin.kinds"},
    "twin.guards": {"twin", "twin.kinds", "twin.job", "twin.rates", "twin.engine", "twin.wiring"},
    "twin.precision": {"twin", "twin.kinds", "twin.job", "twin.engine", "twin.wiring", "twin.guards", "twin.run"},
    "twin.run": {"twin", "twin.kinds", "twin.engine"},
    "streamtwin.tables": set(),
    "scenarios.files": set(),
    "scenarios.executing": set(),
    "streamtwin.schemas": {"scenarios.calibration", "streamtwin.connect.profiling"},
    "scenarios.spaces": set(),
    "scenarios.suite": {"scenarios.spaces"},
    "scenarios.planning": {"streamtwin.tables", "scenarios.executing", "scenarios.calibration"},
    "streamtwin.connect.profiling": {"streamtwin.tables", "scenarios.files"},
    "scenarios.learning": {"streamtwin.tables", "scenarios.files", "scenarios.spaces"},
    "scenarios.questions": {"streamtwin.tables", "scenarios.files", "scenarios.executing", "scenarios.planning"},
    "scenarios.benchmarking": {"streamtwin.tables", "scenarios.executing", "scenarios.suite", "scenarios.planning"},
    "scenarios.improving": {
        "streamtwin.tables",
        "scenarios.files",
        "scenarios.spaces",
        "scenarios.suite",
        "scenarios.planning",
        "scenarios.questions",
        "scenarios.learning",
    },
    "scenarios.calibration": {"streamtwin.tables", "scenarios.files"},
    "streamtwin.connect.importers": {"streamtwin.tables", "scenarios.files"},
    "streamtwin.connect.shadow": {
        "streamtwin.tables",
        "scenarios.files",
        "streamtwin.connect.importers",
        "scenarios.planning",
    },
    "streamtwin.export": {"streamtwin.tables", "scenarios.files"},
    "streamtwin.report": {"streamtwin.tables", "scenarios.files", "scenarios.questions"},
    "streamtwin.notebook": {
        "streamtwin.tables",
        "scenarios.files",
        "scenarios.executing",
        "scenarios.questions",
        "streamtwin.report",
    },
    "streamtwin.demo": {"streamtwin.tables", "scenarios.files", "scenarios.planning", "scenarios.learning"},
}
"""What a room of `twin` or `scenarios` may import of its own package, imports for types alone included."""

GLOBAL_STATE = {"matplotlib.pyplot", "random"}


def imports(path: Path) -> Iterator[str]:
    """Full dotted names of everything that a file imports."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import; write the full name"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


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


def room(name: str) -> str:
    """Where a module lives: a room, a file of the facade, or a package's top. Rooms in the engine are one."""
    parts = name.split(".")
    if ".".join(parts[:2]) in FACADE:
        return ".".join(parts[:2])
    return ".".join(parts[:2]) if len(parts) > 1 and (ROOT / parts[0] / parts[1]).is_dir() else parts[0]


@pytest.mark.parametrize("inside", BELOW)
def test_room_imports_only_what_is_below_it(inside: str) -> None:
    package = first(inside)
    mine = [path for path in files(package) if room(".".join(path.relative_to(ROOT).with_suffix("").parts)) == inside]
    assert mine
    upward = {
        f"{path.relative_to(ROOT)} imports {name}"
        for path in mine
        for name in imports(path)
        if first(name) == package and room(name) not in BELOW[inside] | {inside}
    }
    assert not upward


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


@pytest.mark.parametrize("package", ALLOWED)
def test_every_package_is_declared(package: str) -> None:
    declared = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for folder in {path.parent.relative_to(ROOT) for path in files(package)}:
        assert f'"{".".join(folder.parts)}"' in declared, f"pyproject.toml does not list {folder}"
