"""Jobs that are served: one scenario, those of a folder, or the library; nothing outside of these is ever read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from scenarios.files import registry
from scenarios.files.scenario_file import load
from twin.errors import BadInput

STATE = ".twin-serve"


@dataclass(frozen=True, slots=True)
class Jobs:
    """Jobs that are served. called: names for commands, by the name on the page. folder: where new files are saved."""

    called: Mapping[str, str]
    folder: Path

    @classmethod
    def of(cls, target: str | None) -> Jobs:
        """Jobs of a target: a file, a folder of files or a library name; None: the library, whose new files are saved
        in the current folder. Raises BadInput if there is no such scenario, or none in the folder."""
        if target is None:
            return cls({name: name for name in registry.names()}, Path())
        path = Path(target)
        if path.is_dir():
            found = sorted(each for each in path.iterdir() if each.suffix in registry.SUFFIXES and _inside(each, path))
            if not found:
                raise BadInput(f"{target} has no scenario files; name a folder with .yaml files, or a scenario")
            return cls({each.stem if _alone(each, found) else each.name: str(each) for each in found}, path)
        load(target)
        if target in registry.names():
            return cls({target: target}, Path())
        return cls({path.stem: target}, path.parent)

    def about(self, name: str) -> str:
        """First sentence of a job's description; empty if it has none, or cannot be read."""
        try:
            return registry.summary(registry.find(self.called[name]))
        except (BadInput, OSError, UnicodeDecodeError):
            return ""


def _inside(file: Path, folder: Path) -> bool:
    """Whether a file is in the folder itself, and not a link that leads out of it."""
    return file.is_file() and file.resolve().parent == folder.resolve()


def _alone(file: Path, found: list[Path]) -> bool:
    return sum(each.stem == file.stem for each in found) == 1
