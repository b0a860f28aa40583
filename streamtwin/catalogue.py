"""What can be named on the command line besides scenarios, a line each for `twin list`.

Everything describes itself: the line is the first sentence of its documentation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from streamtwin.house import PAPERS
from streamtwin.sources import assigned_calls, assigned_texts, registered, specs, summary

COST_MODELS: Mapping[str, str] = {
    "rates": "analytic: steady rates, utilisations and queueing formulas; milliseconds a plan",
    "sim": "the simulator itself; a fraction of a second a plan",
    "learned": "a correction of the rate model for any engine and hosts, trained on simulated runs",
    "staged": "rates find plans near their best, the learned model orders them, the simulator decides among five",
    "MODEL": "a folder that 'twin train' wrote: an ensemble of graph neural networks",
}


def optimizers() -> dict[str, str]:
    """Name and summary of every optimizer: what the registry says of it, or its module where it has one of its own."""
    words = assigned_texts("optimizers.registry", "WORDS")
    found = {name: words.get(name, summary(module)) for name, module in registered("optimizers.registry")}
    for alias, text in assigned_texts("optimizers.registry", "ALIASES").items():
        found[alias] = f"{words[alias]}; the same as {text}"
    return dict(sorted(found.items()))


def policies() -> dict[str, str]:
    """Name and summary of every policy: what the registry or its module says of it, and its options."""
    found, words = {}, assigned_texts("optimizers.policies.registry", "WORDS")
    for module, fields in specs("optimizers.policies.registry", "PolicySpec"):
        name, options = fields.pop("name"), ", ".join(f"{option}: {default}" for option, default in fields.items())
        found[name] = words.get(name, summary(module)) + (f" ({options})" if options else "")
    return dict(sorted(found.items()))


def spaces() -> dict[str, str]:
    """Name and summary of every parameter space that `twin corpus --space` takes."""
    from scenarios.spaces.registry import DRAWN, SPACES

    drawn = {name: space.summary for name, space in DRAWN.items()}
    return {**{name: _space(space) for name, space in sorted(SPACES.items())}, **drawn}


def families() -> dict[str, str]:
    """Name and summary of every family of the suite that `twin benchmark` takes."""
    from scenarios.suite.members import MEMBERS

    return {name: f"{len(each.seeds)} scenarios: {each.summary}" for name, each in MEMBERS.items()}


def experiments() -> dict[str, str]:
    """Name, summary and source of every experiment that `twin reproduce` takes; none where there is no checkout."""
    files = sorted(PAPERS.glob("*/*.py"))
    fields = ("name", "source", "summary")
    found = [each for path in files for each in assigned_calls(path, "Experiment", fields)]
    found.sort(key=lambda each: _by_number(each["name"]))
    return {each["name"]: f"{each['summary']} ({each['source']})" for each in found}


def _by_number(name: str) -> list[str]:
    """So that fig9 comes before fig10."""
    return [part.zfill(4) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def _space(space: Any) -> str:
    """Queries and hosts, and what of the hardware is not Costream's."""
    from scenarios.spaces.parameter_space import COSTREAM
    from scenarios.spaces.unseen_hardware import FEATURES

    low, high = space.hosts_range
    sources, filters = ("/".join(map(str, counts)) for counts in (space.sources, space.filters))
    other = {name: getattr(space, name) for name in FEATURES if getattr(space, name) != getattr(COSTREAM, name)}
    words = [f"{name} {', '.join(f'{value:g}' for value in values)}" for name, values in other.items()]
    return "; ".join([f"random queries with {sources} sources and {filters} filters on {low} to {high} hosts", *words])
