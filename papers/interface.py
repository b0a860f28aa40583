"""What an experiment is, and what it gives back: tables and figures with ours beside the paper's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from papers.recipes import Recipe
from papers.sizes import Sizes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from papers.workspace import Workspace


@dataclass(frozen=True)
class Table:
    """columns: key of a row -> heading with unit; a heading says "paper" over a published figure. rows: None where
    a row has no such value."""

    title: str
    columns: Mapping[str, str]
    rows: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class Result:
    """tables, figures: by the name of the file that they become. notes: sentences that the tables need beside them.
    about: of what our figures are; empty: of simulated runs."""

    tables: Mapping[str, Table]
    figures: Mapping[str, Callable[[], Figure]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    about: str = ""


def _no_recipes(_sizes: Sizes, _seed: int) -> Sequence[Recipe]:
    return ()


@dataclass(frozen=True)
class Experiment:
    """One table or figure of a paper.

    name: as in `twin reproduce costream.table3`. source: where it is published. summary: a line for `twin list`.
    run: computes it; all that is large or random it takes from the workspace. recipes: the corpora that `run` will ask
    for, so that Spark makes them together, before anything else is loaded.
    """

    name: str
    source: str
    summary: str
    run: Callable[[Workspace, Sizes], Result]
    recipes: Callable[[Sizes, int], Sequence[Recipe]] = _no_recipes
