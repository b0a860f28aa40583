"""Catalogue of all that can be named on the command line besides scenarios, with a line each for `twin list`.

It is data, `catalogue.json`, because importing all that it names takes far longer than listing it. Everything describes
itself: `python -m streamtwin.catalogue` writes the data anew from the first sentences of docstrings, the texts in
registries, and the summaries of experiments.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from streamtwin.package import PAPERS
from twin.files import parse_json

FILE = Path(__file__).with_suffix(".json")
COST_MODELS: Mapping[str, str] = {
    "rates": "analytic: rates, utilisations, queueing formulas and bursts; milliseconds a plan",
    "rates:twice": "the same, for twice the mean rates",
    "rates:peak": "the same, for each source's highest rate: what learning is to be compared with",
    "learned": "a correction of the rate model for any engine and hosts, trained on simulated runs",
    "MODEL": "a folder that 'twin train' wrote: an ensemble of graph neural networks",
    "FILE.py:CLASS": "a class of your own, with a name, predict and blind_to (docs/extending.md)",
}
_SENTENCE = re.compile(r'(?<!\bFig)(?<!\bSec)(?<!\bEq)(?<!\bvs)\.\s+(?=[A-Z"(`])')


@cache
def _listed() -> Mapping[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = parse_json(FILE.read_text(encoding="utf-8"))
    return found


def optimizers() -> dict[str, str]:
    """Name and summary of every optimizer."""
    return _listed()["optimizers"]


def policies() -> dict[str, str]:
    """Name and summary of every policy, and its options."""
    return _listed()["policies"]


def spaces() -> dict[str, str]:
    """Name and summary of every parameter space that `twin corpus --space` takes."""
    return _listed()["spaces"]


def families() -> dict[str, str]:
    """Name and summary of every family of the suite that `twin benchmark` takes."""
    return _listed()["families"]


def experiments() -> dict[str, str]:
    """Name, summary and source of every experiment that `twin reproduce` takes; none without a checkout."""
    return _listed()["experiments"] if PAPERS.is_dir() else {}


def kinds() -> dict[str, str]:
    """Name of every kind of operators, and what it does."""
    return _listed()["kinds"]


def described() -> dict[str, dict[str, str]]:
    """Catalogue as all that it names describes itself. It imports everything."""
    from optimizers import policies as of_policies
    from optimizers.registry import ALIASES, OPTIMIZERS, WORDS
    from papers.registry import EXPERIMENTS
    from scenarios.spaces.registry import DRAWN, SPACES
    from scenarios.suite import MEMBERS
    from twin.kinds.registry import BY_KIND

    planned = {name: WORDS.get(name) or summary(type(each)) for name, each in OPTIMIZERS.items()}
    planned |= {name: f"{planned[name]}; the same as {text}" for name, text in ALIASES.items()}
    controlled = {}
    for name, spec in of_policies.POLICIES.items():
        options = ", ".join(f"{key}: {field.default}" for key, field in spec.model_fields.items() if key != "name")
        controlled[name] = (of_policies.WORDS.get(name) or summary(spec)) + (f" ({options})" if options else "")
    return {
        "optimizers": dict(sorted(planned.items())),
        "policies": dict(sorted(controlled.items())),
        "spaces": {name: _space(space) for name, space in sorted(SPACES.items())}
        | {name: space.summary for name, space in DRAWN.items()},
        "families": {name: f"{len(each.seeds)} scenarios: {each.summary}" for name, each in MEMBERS.items()},
        "experiments": {name: f"{each.summary} ({each.source})" for name, each in EXPERIMENTS.items()},
        "kinds": {name: kind.does for name, kind in sorted(BY_KIND.items())},
    }


def summary(of: type) -> str:
    """First sentence of the docstring of a class's module, without its full stop."""
    text = " ".join((sys.modules[of.__module__].__doc__ or "").split())
    return _SENTENCE.split(text)[0].rstrip(".")


def _space(space: Any) -> str:
    """Summary of a parameter space: queries, number of hosts, and hardware that differs from Costream's."""
    from scenarios.spaces.generator import COSTREAM, FEATURES

    low, high = space.hosts_range
    sources, filters = ("/".join(map(str, counts)) for counts in (space.sources, space.filters))
    other = {name: getattr(space, name) for name in FEATURES if getattr(space, name) != getattr(COSTREAM, name)}
    words = [f"{name} {', '.join(f'{value:g}' for value in values)}" for name, values in other.items()]
    return "; ".join([f"random queries with {sources} sources and {filters} filters on {low} to {high} hosts", *words])


if __name__ == "__main__":
    FILE.write_text(json.dumps(described(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
