"""Options of whatever searches for plans, and what its cost models do not see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from streamtwin.cli.terminal import Terminal

Objective = Annotated[
    str | None,
    typer.Option(
        "--objective",
        help="processing_latency_s, e2e_latency_s, throughput_per_s, or (optimize) price; default: the optimizer's.",
    ),
]
Seconds = Annotated[
    float | None,
    typer.Option("--time-limit", metavar="S", help="Stop searching after S seconds, with the best plan so far."),
]
Budget = Annotated[int, typer.Option("--budget", min=1, help="Plans that a cost model may estimate.")]
Prove = Annotated[
    int, typer.Option("--prove", min=0, metavar="K", help="Simulate the K best plans, and take the best of them.")
]
Drive = Annotated[
    str | None,
    typer.Option(
        "--drive",
        metavar="near|calibrated|free",
        help="How a learned model is used: to choose among plans that the rate model finds near its best, to "
        "correct the rate model, or in a free search. "
        "Default: near for milp, else free.",
    ),
]


def say_blindness(terminal: Terminal, scenario: str, blind: Mapping[str, Sequence[str]]) -> None:
    """A note for each cost model that something of the scenario makes no difference to."""
    for name, words in blind.items():
        terminal.note(f"note ({scenario}): the cost model {name} ignores {'; '.join(words)}")
