"""Makes sure that our modules are imported: the packages that lie beside this one, whatever else has their names.

They have plain names (`models`, `spark`, ...), and so may a user's own folders. The command is alone in its process,
so `claim` makes Python find ours first. In a user's own process the user's go first; `foreign` tells in one line which
module has the place of one of ours.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("figures", "models", "optimizers", "scenarios", "spark", "twin")
PAPERS = ROOT / "papers"
"""Folder of the published experiments, which is in a checkout, but not installed."""


class _Ours:
    """Finder of our packages beside this one, before any path is searched. It has no base class, whose module would
    take longer to import than all else here, and Ctrl-C meanwhile would print a traceback."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Spec of one of our packages; None for all other names."""
        return PathFinder.find_spec(fullname, [str(ROOT)]) if fullname in (*PACKAGES, PAPERS.name) else None


def claim() -> None:
    """Makes Python find our packages first, in this process and in those that it spawns."""
    if not any(isinstance(finder, _Ours) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Ours())


def foreign(packages: Iterable[str] = PACKAGES) -> str:
    """Line on the first of these names under which another module would be imported; empty if there is none."""
    for name in packages:
        place = _place(name)
        if place is None:
            return f"package {name!r} of streamtwin is missing in {ROOT}; install streamtwin again"
        if not (ROOT / name).exists() or not place.samefile(ROOT / name):
            return (
                f"{name!r} is {place} here, and streamtwin has a package of that name; rename it, start Python with -P "
                "or elsewhere, or use the command `twin`, which is not disturbed by it"
            )
    return ""


def _place(name: str) -> Path | None:
    """Folder of the package, or file of the module, that has this name; None if there is none."""
    loaded = sys.modules.get(name)
    spec = loaded.__spec__ if loaded is not None else importlib.util.find_spec(name)
    folders = [Path(each) for each in (spec.submodule_search_locations if spec else None) or ()]
    if folders:
        return next((folder for folder in folders if folder.resolve().parent == ROOT), folders[0])
    return Path(spec.origin) if spec is not None and spec.origin is not None else None


ENDS_WITH_STDIN = "STREAMTWIN_ENDS_WITH_STDIN"
"""Environment variable under which a command ends, with all that it has started, when its standard input is closed:
when the process that asked it is gone, however that ended."""
