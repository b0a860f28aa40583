"""The citation file says what the package says of itself."""

from __future__ import annotations

import tomllib
from pathlib import Path

import yaml

from twin import VERSION

ROOT = Path(__file__).resolve().parents[1]


def test_the_citation_is_of_this_version_and_names_nobody_else():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert cited.keys() >= {"cff-version", "message", "title", "authors"}  # what the format requires
    assert (cited["cff-version"], cited["type"]) == ("1.2.0", "software")
    assert (cited["version"], cited["license"]) == (VERSION, project["license"])
    assert cited["title"].partition(":")[0] == project["name"]
    assert cited["authors"] == [{"name": project["name"]}]
