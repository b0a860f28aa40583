"""The scenario library: every YAML file in `scenarios/library` is a scenario, named after the file.

Names and descriptions are read without building the scenario, so that listing them is quick.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from scenarios.files.yaml_text import parse_text
from twin.errors import BadInput, suggest

LIBRARY = Path(__file__).parents[1] / "library"
SUFFIXES = (".yaml", ".yml")
THEMES: Mapping[str, tuple[str, ...]] = {
    "To begin with": ("edge-filter", "word-count", "rush-hour-scaling", "failover"),
    "What jobs of Flink do": (
        "clicks", "orders", "page-views", "enrichment", "hourly", "fan-out", "cdc", "exactly-once", "checkpointed-shop",
    ),
    "Nexmark as Flink SQL": ("nexmark-*",),
    "Between sensors and the cloud": ("gateways", "lte", "machine-stop", "rush-hour", "smart-grid"),
    "Costream's benchmarks": ("advertisement", "smart-grid-global", "smart-grid-local", "spike-detection"),
    "Key groups on twenty workers": ("airline-*", "wikipedia-top-k"),
    "Machines of many sockets": ("briskstream-*", "numa-cluster"),
}  # fmt: skip
"""Headings under which the library is shown, with the names below them, or patterns; others are under OTHERS."""
OTHERS = "Others"


def names(library: Path = LIBRARY) -> tuple[str, ...]:
    """All names in the library, sorted."""
    return tuple(sorted(path.stem for path in library.glob("*.yaml")))


def by_theme(listed: Iterable[str]) -> dict[str, list[str]]:
    """Names of the library under their headings, as they are shown; headings without names are left out."""
    left = dict.fromkeys(sorted(listed, key=_counted))
    found: dict[str, list[str]] = {}
    for heading, patterns in THEMES.items():
        found[heading] = [name for pattern in patterns for name in left if fnmatchcase(name, pattern)]
        left = dict.fromkeys(name for name in left if name not in found[heading])
    return {heading: members for heading, members in {**found, OTHERS: list(left)}.items() if members}


def _counted(name: str) -> list[str | int]:
    """Key by which names with numbers are sorted as people count: nexmark-q2 before nexmark-q11."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", name)]


def find(name_or_path: str, library: Path = LIBRARY) -> Path:
    """File of a library name, or the path itself if it is a file.

    Raises BadInput, with the nearest name, if it is neither.
    """
    if name_or_path in names(library):
        return library / f"{name_or_path}.yaml"
    path = Path(name_or_path)
    if path.is_file():
        return path
    if path.is_dir():
        raise BadInput(f"scenario file {name_or_path} is a folder; name a YAML file in it")
    if path.suffix in SUFFIXES or len(path.parts) > 1:
        raise BadInput(f"scenario file {name_or_path} does not exist; {_meant(path, library)}")
    remedy = suggest(name_or_path, names(library))
    raise BadInput(f"unknown scenario {name_or_path!r}; {remedy} ('twin list' shows all)")


def _meant(path: Path, library: Path) -> str:
    """Remedy for a file that does not exist: the scenario of the library with its name, or a file with one like it."""
    if path.stem in names(library):
        return f"the library has {path.stem}, without an ending"
    beside = path.parent.iterdir() if path.parent.is_dir() else ()
    near = suggest(path.name, [each.name for each in beside if each.suffix in SUFFIXES])
    return near if near.startswith("did you mean") else "check the path"


def summary(path: Path) -> str:
    """First sentence of a scenario file's description. Raises BadInput if the file is not YAML."""
    data = parse_text(path.read_text(encoding="utf-8"), str(path))
    description = str(data.get("description", "")) if isinstance(data, dict) else ""
    return " ".join(description.split()).partition(". ")[0].rstrip(".")
