"""The scenario library: every YAML file in `scenarios/library` is a scenario, named after the file.

Names and descriptions are read without building the scenario, so that listing them is quick.
"""

from __future__ import annotations

from pathlib import Path

from scenarios.files.yaml_text import parse_text
from twin.errors import BadInput, suggest

LIBRARY = Path(__file__).parents[1] / "library"
SUFFIXES = (".yaml", ".yml")


def names(library: Path = LIBRARY) -> tuple[str, ...]:
    """All names in the library, sorted."""
    return tuple(sorted(path.stem for path in library.glob("*.yaml")))


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
