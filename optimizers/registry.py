"""All optimizers by name. A new one is a file with an `Optimizer` and a line here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from optimizers.branching.optimizer import BranchAndBound
from optimizers.costream import Costream
from optimizers.exhaustive import Exhaustive
from optimizers.first_fit import FirstFit
from optimizers.fusion.optimizer import Fusing
from optimizers.governor import Governor
from optimizers.interface import Optimizer, traits_of
from optimizers.local_search import LocalSearch
from optimizers.milp.optimizer import Milp
from optimizers.plugins import from_file, from_package, installed, is_file
from optimizers.random_plan import RandomPlan
from optimizers.random_sockets import RandomSockets
from optimizers.rlas import Rlas
from optimizers.spread import Spread
from twin.errors import BadInput, suggest

OPTIMIZERS: Mapping[str, Optimizer] = {
    optimizer.name: optimizer
    for optimizer in (
        BranchAndBound(),
        Costream(),
        Exhaustive(),
        Governor(),
        LocalSearch(),
        Milp(),
        Milp("milp-costream", ruled=True),
        Milp("milp-rate", goal="rate"),
        Milp("milp-hosts", goal="hosts"),
        RandomPlan(),
        Rlas(),
        Rlas("rlas-fix-l", fetch="always"),
        Rlas("rlas-fix-u", fetch="never"),
        Rlas("rlas-placement", scale=False),
        Fusing(),
        Fusing("fusion-pa", algorithm="pa"),
        Fusing("fusion-baseline", algorithm="baseline"),
        Fusing("fusion-exact", algorithm="exact"),
        FirstFit(),
        FirstFit("round-robin", turn=True),
        Spread(),
        RandomSockets(),
    )
}

WORDS: Mapping[str, str] = {
    "fusion": "Operators that run as one, by what they send each other (Enorm, Algorithm 1), and where",
    "fusion-baseline": "Operators that run as one, grown from random ones: what Enorm compares with (Section 7.6)",
    "fusion-exact": "Operators that run as one, so that components of common keys send each other the least",
    "fusion-pa": "Operators that run as one, by how many attributes they have in common (Enorm, Algorithm 1)",
    "milp": "Mixed-integer programs over the rate model's loads: the plan with the least latency, or another objective",
    "milp-costream": "The program for the best objective, of plans that keep Costream's rules of placement alone",
    "milp-hosts": "The program for the fewest hosts, or the cheapest, that bear the job and 20 % more",
    "milp-rate": "The program for the plan that bears the highest rate: how many times what is offered?",
    "rlas-fix-l": "RLAS where distances are taken for the longest: every fetch is a remote one (BriskStream, Fig. 12)",
    "rlas-fix-u": "RLAS where distances are taken for none: every fetch is a local one (BriskStream, Fig. 12)",
    "rlas-placement": "The placement of RLAS alone: numbers of replicas stay as they are given",
    "first-fit": "Sockets are filled one after the other, whatever the distances (BriskStream, Table 6)",
    "round-robin": "Sockets get operators in turn, whatever the distances (BriskStream, Table 6)",
}
"""What `twin list` says of those that share a file with others; of the rest, the file says it."""

BASELINES = frozenset(name for name, each in OPTIMIZERS.items() if traits_of(each).baseline)
"""What others are compared with: they are not to keep a better plan that they were given."""
DRIVEN = tuple(name for name, each in OPTIMIZERS.items() if traits_of(each).drivable)
"""Those that any cost model may drive."""


def optimizer_by_name(name: str) -> Optimizer:
    """One of these, of an installed package, or of a file (`my_file.py:MyOptimizer`), alone or behind one that fuses
    (`fusion+rlas`).

    Raises BadInput, with a suggestion, for an unknown name, or with what is wrong with somebody's own.
    """
    if name in OPTIMIZERS:
        return OPTIMIZERS[name]
    fusing, plus, placing = name.partition("+")
    if plus and not placing:
        raise BadInput(f"{name!r} names nothing behind the +; name an optimizer that places, as in fusion+rlas")
    if plus and isinstance(first := OPTIMIZERS.get(fusing), Fusing):
        return _together(first, optimizer_by_name(placing))
    if is_file(name):
        return from_file(name)
    if name.endswith(".py"):
        raise BadInput(f"--optimizer {name!r} names a file but no class in it; write {name}:CLASS")
    points = installed()
    if name not in points:
        raise BadInput(f"unknown optimizer {name!r}; {suggest(name, (*OPTIMIZERS, *points))}")
    return from_package(points[name])


def _together(fusing: Fusing, placing: Optimizer) -> Fusing:
    if isinstance(placing, Fusing):
        raise BadInput(f"{placing.name} fuses, as {fusing.name} does; name one that places behind the +, such as rlas")
    if not traits_of(placing).by_objective:
        raise BadInput(f"{placing.name} has a goal of its own, beside which nothing is fused; use milp or rlas")
    return replace(fusing, name=f"{fusing.name}+{placing.name}", placing=placing)
