"""Which engine runs: these sources in plain Python, or the same sources compiled by mypyc (docs/compiled.md).

A build leaves an extension beside each module, and BUILT, which says what it was made from. Python prefers extensions;
so where the sources have changed since, or TWIN_ENGINE=python asks for them, they are put first.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import sys
from collections.abc import Sequence
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from pathlib import Path
from types import ModuleType

from twin.errors import BadInput

FOLDER = Path(__file__).parent
BUILT = "compiled.json"
"""In the engine's folder: a hash of each source by its path there, as it was compiled."""
VARIABLE = "TWIN_ENGINE"
KINDS = ("compiled", "python")
APART = ("__init__.py", "alarm.py", "calendar.py", "compiled.py")
"""What stays plain Python: packages, what inherits from classes of SimPy's, and this."""


def sources(folder: Path = FOLDER) -> list[str]:
    """What is to be compiled, as paths in the engine's folder."""
    found = sorted(path.relative_to(folder) for path in folder.rglob("*.py"))
    return [path.as_posix() for path in found if path.name not in APART]


def fingerprint(folder: Path, names: Sequence[str]) -> dict[str, str]:
    """A hash of each source; empty for one that is not there."""
    return {
        name: hashlib.sha256((folder / name).read_bytes()).hexdigest() if (folder / name).exists() else ""
        for name in names
    }


def changed(folder: Path) -> list[str]:
    """Sources that are no longer as they were compiled."""
    built = json.loads((folder / BUILT).read_text(encoding="utf-8"))
    now = fingerprint(folder, list(built))
    return [name for name, digest in built.items() if now[name] != digest]


def present(folder: Path) -> bool:
    """Whether this Python finds a compiled engine there."""
    library = folder.parent / f"{folder.name}__mypyc"
    return (folder / BUILT).exists() and any(Path(f"{library}{suffix}").exists() for suffix in EXTENSION_SUFFIXES)


def choose(folder: Path = FOLDER) -> str:
    """The engine that runs from here on, one of KINDS. Raises BadInput for one that is unknown or not there."""
    wanted = os.environ.get(VARIABLE, "")
    if wanted not in ("", *KINDS):
        raise BadInput(f"{VARIABLE}={wanted}: no such engine; one of {', '.join(KINDS)}, or nothing for the fastest")
    if not present(folder):
        if wanted == "compiled":
            raise BadInput(f"{VARIABLE}=compiled: there is none for this Python; 'make compiled' makes it")
        return "python"
    stale = changed(folder) if wanted != "python" else []
    if wanted == "compiled" and stale:
        raise BadInput(f"{VARIABLE}=compiled: {_what(stale)}; 'make compiled' compiles it again")
    if wanted != "python" and not stale:
        return "compiled"
    if stale:
        print(f"twin: {_what(stale)}; plain Python runs. 'make compiled' compiles it again", file=sys.stderr)
    sys.meta_path.insert(0, SourcesFirst(folder))
    return "python"


def _what(stale: Sequence[str]) -> str:
    more = f" and {len(stale) - 1} more" if len(stale) > 1 else ""
    return f"the compiled engine is older than its source (twin/engine/{stale[0]}{more})"


class SourcesFirst:
    """Finds the engine's modules as sources, before Python finds their extensions."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Part of Python's import system: where a module is; None for all that is not the engine's."""
        if not name.startswith("twin.engine."):
            return None
        source = self.folder.joinpath(*name.split(".")[2:]).with_suffix(".py")
        return importlib.util.spec_from_file_location(name, source) if source.exists() else None
