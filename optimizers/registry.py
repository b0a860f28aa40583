"""Optimizers by name. A new one is a file with an `Optimizer` and a line here.

Variants of an optimizer are its options: `milp:goal=hosts`. ALIASES has short names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, Literal, cast, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError

from optimizers.branching import BranchAndBound
from optimizers.fusion.optimizer import FusionOptimizer
from optimizers.interface import Optimizer, traits_of
from optimizers.local_search import Costream, Exhaustive, Governor, LocalSearch, RandomPlan
from optimizers.milp.optimizer import Milp
from optimizers.numa.baselines import FirstFit, RandomSockets, Spread
from optimizers.numa.rlas import Rlas
from optimizers.plugins import from_file, from_package, installed, is_file
from twin.errors import BadInput, suggest

OWN: tuple[Optimizer, ...] = (
    BranchAndBound(),
    Costream(),
    Exhaustive(),
    Governor(),
    LocalSearch(),
    Milp(),
    RandomPlan(),
    Rlas(sharing=True),
    FusionOptimizer(),
    FirstFit(),
    Spread(),
    RandomSockets(),
)

ALIASES: Mapping[str, str] = {
    "fusion-baseline": "fusion:algorithm=baseline",
    "fusion-exact": "fusion:algorithm=exact",
    "fusion-pa": "fusion:algorithm=pa",
    "milp-costream": "milp:ruled=true",
    "milp-hosts": "milp:goal=hosts",
    "milp-rate": "milp:goal=rate",
    "rlas-fix-l": "rlas:fetch=always",
    "rlas-fix-u": "rlas:fetch=never",
    "rlas-placement": "rlas:scale=false",
    "round-robin": "first-fit:turn=true",
}
"""Short names of optimizers with options."""

WORDS: Mapping[str, str] = {
    "costream": "Costream's placement procedure (Section V): random candidates that obey the rules, the best chosen",
    "exhaustive": "Every plan of the space, estimated: the optimum under a cost model, for small problems",
    "first-fit": "Sockets are filled one after the other, whatever the distances (BriskStream, Table 6)",
    "fusion": "Operators that run as one, by what they send each other (Enorm, Algorithm 1), and where",
    "fusion-baseline": "Operators that run as one, grown from random ones: what Enorm compares with (Section 7.6)",
    "fusion-exact": "Operators that run as one, so that components of common keys send each other the least",
    "fusion-pa": "Operators that run as one, by how many attributes they have in common (Enorm, Algorithm 1)",
    "governor": (
        "A placement by fixed policies and no cost model, in the style of Governor (Chaudhary, Zeuch, Markl, EDBT 2020)"
    ),
    "local-search": "Hill climbing from several starts: the usual optimizer, under any cost model",
    "milp": "Mixed-integer programs over the rate model's loads: the plan with the least latency, or another objective",
    "milp-costream": "The program for the best objective, of plans that keep Costream's rules of placement alone",
    "milp-hosts": "The program for the fewest hosts, or the cheapest, that bear the job and 20 % more",
    "milp-rate": "The program for the plan that bears the highest rate: how many times what is offered?",
    "random": "One plan of the space, drawn at random: what any optimizer must beat",
    "random-sockets": "Random replication and placement on sockets: what BriskStream's Fig. 14 compares with",
    "rlas-fix-l": "RLAS where distances are taken for the longest: every fetch is a remote one (BriskStream, Fig. 12)",
    "rlas-fix-u": "RLAS where distances are taken for none: every fetch is a local one (BriskStream, Fig. 12)",
    "rlas-placement": "The placement of RLAS alone: numbers of subtasks stay as they are given",
    "round-robin": "Sockets get operators in turn, whatever the distances (BriskStream, Table 6)",
    "spread": "Threads go where the fewest run, a core, as an operating system has it (BriskStream, Table 6)",
}
"""Descriptions in `twin list` of optimizers that share a file; others are described by the docstring of their file."""


def with_options(optimizer: Optimizer, name: str, options: str) -> Optimizer:
    """The optimizer with `option=value` set, several separated by colons, and called `name`.

    Raises BadInput for an option that it does not have, or a value that the option cannot have.
    """
    hints = get_type_hints(type(optimizer))
    known = [each.name for each in fields(cast(Any, optimizer)) if each.name in hints and _plain(hints[each.name])]
    made: dict[str, Any] = {}
    for option in options.split(":"):
        key, _, value = option.partition("=")
        if key not in known:
            raise BadInput(f"optimizer {optimizer.name!r} has no option {key!r}; {suggest(key, known)}")
        try:
            made[key] = TypeAdapter(hints[key]).validate_strings(value)
        except ValidationError as error:
            raise BadInput(f"--optimizer {name!r}: {key}={value}: {error.errors()[0]['msg']}") from error
    return cast(Optimizer, replace(cast(Any, optimizer), name=name, **made))


def _plain(hint: Any) -> bool:
    """Whether a value of that type can be written in a word."""
    return hint in (bool, int | None, int) or get_origin(hint) is Literal


_BY_NAME = {optimizer.name: optimizer for optimizer in OWN}
OPTIMIZERS: Mapping[str, Optimizer] = {
    **_BY_NAME,
    **{
        alias: with_options(_BY_NAME[own], alias, options)
        for alias, (own, _, options) in ((alias, text.partition(":")) for alias, text in ALIASES.items())
    },
}
BASELINES = frozenset(name for name, each in OPTIMIZERS.items() if traits_of(each).baseline)
"""Names of the baselines: they do not keep a given plan, even if it is better."""
DRIVEN = tuple(name for name, each in OPTIMIZERS.items() if traits_of(each).drivable)
"""Names of the optimizers that any cost model may drive."""


def optimizer_by_name(name: str) -> Optimizer:
    """Optimizer by name, with options (`rlas:scale=false`), of an installed package, or of a file
    (`my_file.py:MyOptimizer`), alone or behind one that fuses (`fusion+rlas`).

    Raises BadInput, with a suggestion, for an unknown name, or with the fault of a user's own optimizer.
    """
    if name in OPTIMIZERS:
        return OPTIMIZERS[name]
    fusing, plus, placing = name.partition("+")
    if plus and not placing:
        raise BadInput(f"{name!r} names nothing behind the +; name an optimizer that places, as in fusion+rlas")
    own, colon, options = fusing.partition(":")
    if plus and own in OPTIMIZERS and isinstance(first := optimizer_by_name(fusing), FusionOptimizer):
        return _together(first, optimizer_by_name(placing))
    if is_file(name):
        return from_file(name)
    if colon and own in OPTIMIZERS:
        return with_options(OPTIMIZERS[own], name, options)
    if name.endswith(".py"):
        raise BadInput(f"--optimizer {name!r} names a file but no class in it; write {name}:CLASS")
    points = installed()
    if name not in points:
        raise BadInput(f"unknown optimizer {name!r}; {suggest(name, (*OPTIMIZERS, *points))}")
    return from_package(points[name])


def _together(fusing: FusionOptimizer, placing: Optimizer) -> FusionOptimizer:
    if isinstance(placing, FusionOptimizer):
        raise BadInput(f"{placing.name} fuses, as {fusing.name} does; name one that places behind the +, such as rlas")
    if not traits_of(placing).by_objective:
        raise BadInput(f"{placing.name} has a goal of its own, beside which nothing is fused; use milp or rlas")
    return replace(fusing, name=f"{fusing.name}+{placing.name}", placing=placing)
