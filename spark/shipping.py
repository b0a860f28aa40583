"""Our own packages as one zip, for executors on machines that do not have them."""

from __future__ import annotations

import importlib.util
import zipfile
from pathlib import Path


def zip_packages(packages: tuple[str, ...], archive: Path) -> Path:
    """Writes the Python and YAML files of these top-level packages to `archive` and names it.

    A package that is not installed is left out: what needs it fails where it is needed, and says so.
    """
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as target:
        for package in packages:
            found = importlib.util.find_spec(package)
            for place in (found.submodule_search_locations or []) if found else []:
                root = Path(place)
                for path in sorted(p for p in root.rglob("*") if p.suffix in {".py", ".yaml"}):
                    target.write(path, Path(package) / path.relative_to(root))
    return archive
