"""Options of commands that search for plans: the search, the allowed plans, and the requirements on plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from streamtwin.cli.given import seconds, share
from streamtwin.cli.options import Options
from streamtwin.cli.terminal import Terminal

if TYPE_CHECKING:
    from optimizers.requirements import Requirements
    from optimizers.space import Space

Seconds = Annotated[
    float | None,
    typer.Option(
        "--time-limit", metavar="S", parser=seconds, help="Stop searching after S seconds, with the best plan so far."
    ),
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


@dataclass(frozen=True)
class Searching(Options):
    """Options of the search for plans."""

    drive: Drive = None
    objective: Annotated[
        str | None,
        typer.Option(
            help="processing_latency_s, e2e_latency_s, throughput_per_s, traffic_bytes_per_s or price; "
            "default: the optimizer's."
        ),
    ] = None
    budget: Annotated[
        int | None,
        typer.Option(min=1, help="Plans that a cost model may estimate. Default: 1000."),
    ] = None
    seconds: Seconds = None
    prove: Annotated[
        int | None, typer.Option(min=1, metavar="K", help="Simulate the K best plans, and take the best of them.")
    ] = None


@dataclass(frozen=True)
class PlanRules(Options):
    """Options that limit the plans that may be chosen, and that require more of them than keeping up."""

    pin: Annotated[
        list[str] | None, typer.Option(metavar="OP,...", help="Operators that stay where they are, such as sensors.")
    ] = None
    allow: Annotated[
        list[str] | None, typer.Option(metavar="OP=HOST,...", help="Hosts on which an operator may run. Repeatable.")
    ] = None
    replicas: Annotated[
        Literal["fixed", "free"] | None,
        typer.Option(help="Whether numbers of replicas may change. Default: the optimizer's."),
    ] = None
    rules: Annotated[
        Literal["none", "costream"],
        typer.Option(help="costream: data never flow to a weaker kind of host, and never return to one."),
    ] = "none"
    together: Annotated[
        bool, typer.Option("--together", help="All replicas of an operator on one socket, unless it is pinned.")
    ] = False
    part_chains: Annotated[
        bool,
        typer.Option("--part-chains", help="Chained operators may get different parallelisms, and then run unchained."),
    ] = False
    moves: Annotated[
        int | None, typer.Option("--most-moves", min=0, metavar="K", help="Most operators that may move.")
    ] = None
    head_room: Annotated[
        float | None,
        typer.Option(
            metavar="H",
            parser=share,
            help="The plan must bear 1 + H times the rates, H as in 0.2 or 20%. Default of milp-hosts: 0.2.",
        ),
    ] = None
    at_most: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LATENCY=DURATION",
            help="Highest mean or quantile of a latency, such as e2e_latency_s.p99=500ms. Repeatable.",
        ),
    ] = None
    prices: Annotated[
        list[str] | None,
        typer.Option(
            "--price",
            metavar="HOST=P,...",
            help="Hosts' prices, for milp-hosts. Default: price_per_hour in the file, or 1.",
        ),
    ] = None

    def space(self) -> Space:
        """Space of plans that the options allow. Raises BadInput if an option cannot be read."""
        from optimizers.space import Space

        return Space(
            pinned=frozenset(name for text in self.pin or () for name in _names(text)),
            allowed=_allowed(self.allow or []),
            spread=False if self.together else None,
            costream_rules=self.rules == "costream",
            most_moves=self.moves,
            part_chains=self.part_chains,
            free_replicas=None if self.replicas is None else self.replicas == "free",
        )

    def requirements(self) -> Requirements:
        """Requirements of the options on a plan. Raises BadInput if an option cannot be read."""
        from optimizers.requirements import Requirements

        return Requirements(
            head_room=self.head_room,
            at_most=_numbers("--at-most", self.at_most, "e2e_latency_s=500ms"),
            prices=_numbers("--price", self.prices, "cloud-1=2.5"),
        )


def _allowed(texts: list[str]) -> dict[str, tuple[str, ...]]:
    from twin.errors import BadInput

    hosts_by_operator: dict[str, tuple[str, ...]] = {}
    for text in texts:
        name, equals, hosts = text.partition("=")
        if not equals or not name.strip() or not _names(hosts):
            raise BadInput(f"--allow {text!r}: write OP=HOST,... with one host at least, such as parse=edge-1,fog-1")
        if name.strip() in hosts_by_operator:
            raise BadInput(f"--allow names {name.strip()!r} twice; give all of its hosts at once, {name}=HOST,HOST")
        hosts_by_operator[name.strip()] = _names(hosts)
    return hosts_by_operator


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _numbers(option: str, texts: list[str] | None, example: str) -> dict[str, float]:
    from twin.errors import BadInput
    from twin.quantities import number

    numbers: dict[str, float] = {}
    for text in [part for listed in texts or () for part in listed.split(",")]:
        name, _, value = (part.strip() for part in text.partition("="))
        try:
            numbers[name] = number(value, name)
        except ValueError as error:
            wrong = f"; {error}" if value else ""
            raise BadInput(f"{option} {text!r}: write a name and a number, such as {example}{wrong}") from None
    return numbers


def say_blindness(terminal: Terminal, scenario: str, blind: Mapping[str, Sequence[str]]) -> None:
    """Prints a note for each cost model that ignores any feature of the scenario."""
    for name, words in blind.items():
        terminal.note(f"note ({scenario}): the cost model {name} ignores {'; '.join(words)}")
