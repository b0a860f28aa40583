"""Registry of all experiments by name: every `Experiment` that a file of a paper's folder assigns."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from papers.interface import Experiment
from twin.errors import BadInput, suggest


def _discovered() -> Iterator[Experiment]:
    here = Path(__file__).parent
    for path in sorted(here.glob("*/*.py")):
        module = importlib.import_module(".".join(path.relative_to(here.parent).with_suffix("").parts))
        yield from (value for value in vars(module).values() if isinstance(value, Experiment))


def _by_number(experiment: Experiment) -> list[str]:
    """Sort key by which fig9 comes before fig10."""
    return [part.zfill(4) if part.isdigit() else part for part in re.split(r"(\d+)", experiment.name)]


EXPERIMENTS: Mapping[str, Experiment] = {each.name: each for each in sorted(_discovered(), key=_by_number)}
"""Experiments by name, ordered by paper and number."""


def chosen(names: Sequence[str]) -> list[Experiment]:
    """Experiments of these names, each once; `all` is every one. Raises BadInput for an unknown name."""
    wanted = list(EXPERIMENTS) if "all" in names else dict.fromkeys(names)
    for name in wanted:
        if name not in EXPERIMENTS:
            raise BadInput(f"unknown experiment {name!r}; {suggest(name, [*EXPERIMENTS, 'all'])}")
    return [EXPERIMENTS[name] for name in wanted]
