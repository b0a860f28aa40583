"""Names of operators for the vertices of a Flink job, whose names are free text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping

from streamtwin.connect.importers.flink_job import Vertex


def names_of(vertices: tuple[Vertex, ...]) -> dict[str, str]:
    """Unique ones, by vertex."""
    found: dict[str, str] = {}
    for vertex in vertices:
        plain = re.sub(r"\b(Source|[Ss]ink): ", "", vertex.name).replace(" -> ", "-").replace(": ", ".")
        latin = unicodedata.normalize("NFKD", plain).replace(" ", "_")
        name = re.sub(r"[^A-Za-z0-9_.-]+", "", latin).strip("-_.") or "vertex"
        taken = sum(each == name or each.startswith(f"{name}#") for each in found.values())
        found[vertex.id] = f"{name}#{taken + 1}" if taken else name
    return found


def renamed(vertices: tuple[Vertex, ...], names: Mapping[str, str]) -> list[str]:
    """Notes on vertices that share a name, or whose letters names of operators do not have."""
    return [
        f"{each.name} is called {names[each.id]}"
        for each in vertices
        if not each.name.isascii() or "#" in names[each.id]
    ]
