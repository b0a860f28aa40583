"""All optimizers by name. A new one is a file with an `Optimizer` and a line here."""

from __future__ import annotations

from collections.abc import Mapping

from optimizers.branching.optimizer import BranchAndBound
from optimizers.costream import Costream
from optimizers.exhaustive import Exhaustive
from optimizers.first_fit import FirstFit
from optimizers.foreign import from_file, from_package, installed, is_file
from optimizers.governor import Governor
from optimizers.interface import Optimizer
from optimizers.local_search import LocalSearch
from optimizers.milp.optimizer import Milp
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
        FirstFit(),
        FirstFit("round-robin", turn=True),
        Spread(),
        RandomSockets(),
    )
}


BASELINES = frozenset({"random", "governor", "first-fit", "round-robin", "spread", "random-sockets"})
"""What others are compared with: they are not to keep a better plan that they were given."""


def optimizer_by_name(name: str) -> Optimizer:
    """One of these, of an installed package, or of a file (`my_file.py:MyOptimizer`).

    Raises BadInput, with a suggestion, for an unknown name, or with what is wrong with somebody's own.
    """
    if name in OPTIMIZERS:
        return OPTIMIZERS[name]
    if is_file(name):
        return from_file(name)
    if name.endswith(".py"):
        raise BadInput(f"--optimizer {name!r} names a file but no class in it; write {name}:CLASS")
    points = installed()
    if name not in points:
        raise BadInput(f"unknown optimizer {name!r}; {suggest(name, (*OPTIMIZERS, *points))}")
    return from_package(points[name])
