"""Options that say what a plan must fulfil beside keeping up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from optimizers.requirements import Requirements

HeadRoom = Annotated[
    float | None,
    typer.Option("--head-room", metavar="H", help="Keep up at 1 + H times the rates. Default of milp-hosts: 0.2."),
]
AtMost = Annotated[
    list[str] | None,
    typer.Option("--at-most", metavar="LATENCY=S", help="Highest mean latency, such as e2e_latency_s=0.5. Repeatable."),
]
Prices = Annotated[
    list[str] | None,
    typer.Option(
        "--price",
        metavar="HOST=P,...",
        help="Hosts' prices, for milp-hosts. Default: price_per_hour in the file, or 1.",
    ),
]


def plan_requirements(head_room: float | None, at_most: list[str] | None, prices: list[str] | None) -> Requirements:
    """What the options require. Raises BadInput for one that cannot be read."""
    from optimizers.requirements import Requirements

    return Requirements(
        head_room=head_room,
        at_most=_numbers("--at-most", at_most, "e2e_latency_s=0.5"),
        prices=_numbers("--price", prices, "cloud-1=2.5"),
    )


def _numbers(option: str, texts: list[str] | None, example: str) -> dict[str, float]:
    from twin.errors import BadInput

    found: dict[str, float] = {}
    for text in [each for listed in texts or () for each in listed.split(",")]:
        name, _, value = (part.strip() for part in text.partition("="))
        try:
            found[name] = float(value)
        except ValueError:
            raise BadInput(f"{option} {text!r}: write a name and a number, such as {example}") from None
    return found
