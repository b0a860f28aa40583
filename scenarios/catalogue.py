"""What can be named on the command line besides scenarios, a line each for `twin list`.

Optimizers and spaces describe themselves: the line is the first sentence of their documentation.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twin.control import PolicySpec

COST_MODELS: Mapping[str, str] = {
    "rates": "analytic: steady rates, utilisations and queueing formulas; milliseconds a plan",
    "sim": "the simulator itself; a fraction of a second a plan",
    "MODEL": "a folder that 'twin train' wrote: an ensemble of graph neural networks",
}


def optimizers() -> dict[str, str]:
    """Name and summary of every optimizer: what its module says it does."""
    from optimizers.registry import OPTIMIZERS

    return {name: _summary(sys.modules[type(optimizer).__module__]) for name, optimizer in sorted(OPTIMIZERS.items())}


def policies() -> dict[str, str]:
    """Name and summary of every policy: what its module says it does, and its options with their defaults."""
    from optimizers.policies import POLICIES

    specs = sorted(POLICIES.items())
    return {name: _summary(sys.modules[spec.__module__]) + _options(spec) for name, spec in specs}


def spaces() -> dict[str, str]:
    """Name and summary of every parameter space that `twin corpus --space` takes."""
    from scenarios.spaces import generator

    return {name: _space(space) for name, space in sorted(generator.SPACES.items())}


def experiments() -> dict[str, str]:
    """Name, summary and source of every experiment that `twin reproduce` takes."""
    from scenarios.experiments.registry import EXPERIMENTS

    return {name: f"{each.summary} ({each.source})" for name, each in EXPERIMENTS.items()}


def _summary(documented: Any) -> str:
    text = " ".join((inspect.getdoc(documented) or "").split())
    return text.partition(". ")[0].rstrip(".")


def _options(spec: type[PolicySpec]) -> str:
    options = {name: field.default for name, field in spec.model_fields.items() if name != "name"}
    return f" ({', '.join(f'{name}: {value}' for name, value in options.items())})" if options else ""


def _space(space: Any) -> str:
    """Queries and hosts, and what of the hardware is not Costream's."""
    from scenarios.spaces.parameter_space import COSTREAM
    from scenarios.spaces.unseen_hardware import FEATURES

    low, high = space.hosts_range
    sources, filters = ("/".join(map(str, counts)) for counts in (space.sources, space.filters))
    other = {name: getattr(space, name) for name in FEATURES if getattr(space, name) != getattr(COSTREAM, name)}
    words = [f"{name} {', '.join(f'{value:g}' for value in values)}" for name, values in other.items()]
    return "; ".join([f"random queries with {sources} sources and {filters} filters on {low} to {high} hosts", *words])
