"""All solvers of balancing problems by name. A new one is a file with a `Solver` and a line here."""

from __future__ import annotations

from collections.abc import Mapping

from optimizers.balancing.albic import Albic
from optimizers.balancing.cola import Cola
from optimizers.balancing.flux import Flux
from optimizers.balancing.joint import Joint
from optimizers.balancing.milp import BalanceMilp
from optimizers.balancing.problem import Solver
from optimizers.balancing.search import Search

SOLVERS: Mapping[str, Solver] = {
    solver.name: solver
    for solver in (
        Search(),
        BalanceMilp(),
        Flux(),
        Flux(best_fit=True, name="flux-best-fit"),
        Albic(),
        Albic(share=0.6, name="albic-k"),
        Joint(),
        Cola(),
    )
}
