"""How the key groups of operators over event time may move: by which strategy, and why not (Enorm, Table 1, Section 5).

Stateless or stateful, flexible or rigid is derived from what an operator hands over and to whom, not declared. A
compute whose partial results another component merges is flexible: two of its replicas may have parts of a key. A
consolidate keeps nothing that its computes could not send again. What is one component (`combined`), or emits its own
windows, is rigid and stateful.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from twin.query import AnyOperator, Query

Strategy = Literal["instant", "disruptive", "smooth"]


class Mobility(NamedTuple):
    """stateful: it keeps what would be lost. flexible: its input may be dealt in another way without moving state.
    strategies: those that it admits, the one that costs least first."""

    stateful: bool
    flexible: bool
    strategies: tuple[Strategy, ...]

    def __str__(self) -> str:
        return f"{'stateful' if self.stateful else 'stateless'} {'flexible' if self.flexible else 'rigid'}"


def mobility(query: Query, name: str, combined: bool) -> Mobility:
    """How an operator can migrate. combined: whether it is one component with the compute or consolidate next to it."""
    operator = query.operator(name)
    if not operator.needs_event_time:
        return Mobility(stateful=False, flexible=True, strategies=("instant",))
    if operator.hands_over in ("tuples", "pairs"):  # its state is not of windows
        return Mobility(stateful=True, flexible=False, strategies=("disruptive",))
    if getattr(operator, "late_to", None) is not None:  # a record that goes to both owners may be late at only one
        return Mobility(stateful=True, flexible=False, strategies=("disruptive",))
    if combined or (operator.hands_over == "windows" and not operator.merges):
        return Mobility(stateful=True, flexible=False, strategies=("disruptive", "smooth"))
    if operator.hands_over == "partials":
        return Mobility(stateful=True, flexible=True, strategies=("instant", "disruptive", "smooth"))
    again = all(query.operator(stream.producer).hands_over == "partials" for stream in query.inputs(name))
    return Mobility(
        stateful=not again,
        flexible=False,
        strategies=("instant", "disruptive", "smooth") if again else ("disruptive", "smooth"),
    )


def combined_with(query: Query, name: str) -> str | None:
    """The consolidate that may be one component with a compute, or the compute of such a consolidate."""
    operator = query.operator(name)
    if operator.hands_over == "partials":
        behind = query.outputs(name)
        return behind[0].consumer if len(behind) == 1 else None
    if operator.merges:
        producers = [stream.producer for stream in query.inputs(name)]
        one = len(producers) == 1 and query.operator(producers[0]).hands_over == "partials"
        return producers[0] if one and len(query.outputs(producers[0])) == 1 else None
    return None


def is_combined(query: Query, name: str) -> bool:
    """Whether an operator is one component with another at the start."""
    other = combined_with(query, name)
    both = [query.operator(each) for each in (name, other) if each is not None]
    return any(getattr(operator, "combined", False) for operator in both)


def why_not(query: Query, name: str, strategy: Strategy | None, combined: bool) -> str:
    """Why an operator's key groups cannot move like that, with the remedy; empty if they can."""
    operator: AnyOperator = query.operator(name)
    if combined and operator.merges:
        return f"{name!r} is one component with {combined_with(query, name)!r}; move the key groups of that, or split"
    found = mobility(query, name, combined)
    if strategy is None or strategy in found.strategies:
        return ""
    remedy = f"use {' or '.join(found.strategies)}"
    if combined:
        remedy += ", or split it first"
    return f"{name!r} is {found}, which does not admit {strategy} migration; {remedy}"
