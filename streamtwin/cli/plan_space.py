"""Options that say which plans may be chosen."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from optimizers.space import Space


class Numbers(StrEnum):
    """Of replicas."""

    FIXED = "fixed"
    FREE = "free"


class Rules(StrEnum):
    """Of placements."""

    NONE = "none"
    COSTREAM = "costream"


Pin = Annotated[
    list[str] | None,
    typer.Option("--pin", metavar="OP,...", help="Operators that stay where they are, such as sensors."),
]
Allow = Annotated[
    list[str] | None,
    typer.Option("--allow", metavar="OP=HOST,...", help="Hosts on which an operator may run. Repeatable."),
]
Replicas = Annotated[
    Numbers | None,
    typer.Option("--replicas", help="Whether numbers of replicas may change. Default: the optimizer's."),
]
Ruled = Annotated[
    Rules,
    typer.Option("--rules", help="costream: data never flow to a weaker kind of host, and never return to one."),
]
Together = Annotated[
    bool, typer.Option("--together", help="All replicas of an operator on one socket, unless it is pinned.")
]
Moves = Annotated[
    int | None, typer.Option("--most-moves", min=0, metavar="K", help="Operators that may move, at most.")
]


def plan_space(
    pin: list[str] | None,
    allow: list[str] | None,
    replicas: Numbers | None,
    rules: Rules,
    together: bool,
    moves: int | None,
) -> Space:
    """The space that the options describe. Raises BadInput for one that cannot be read."""
    from optimizers.space import Space

    return Space(
        pinned=frozenset(name for text in pin or () for name in _names(text)),
        allowed=_allowed(allow or []),
        spread=False if together else None,
        costream_rules=rules is Rules.COSTREAM,
        most_moves=moves,
        free_replicas=None if replicas is None else replicas is Numbers.FREE,
    )


def _allowed(texts: list[str]) -> dict[str, tuple[str, ...]]:
    from twin.errors import BadInput

    found: dict[str, tuple[str, ...]] = {}
    for text in texts:
        name, equals, hosts = text.partition("=")
        if not equals or not name.strip() or not _names(hosts):
            raise BadInput(f"--allow {text!r}: write OP=HOST,... with one host at least, such as parse=edge-1,fog-1")
        if name.strip() in found:
            raise BadInput(f"--allow names {name.strip()!r} twice; give all of its hosts at once, {name}=HOST,HOST")
        found[name.strip()] = _names(hosts)
    return found


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())
