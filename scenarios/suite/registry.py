"""The families of the suite that ask for a plan of a scenario. A new one is a line here and in `members`, and raises
the version; of one that asks for something else, the line in `members` says what, and `scenarios/benchmarking` judges.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from optimizers.space import ALL_PLANS
from scenarios.suite.families import TOGETHER, Family, behind_links, demanding, edge, rented, replicated, sockets
from scenarios.suite.members import MEMBERS
from twin.errors import BadInput, suggest

FAMILIES: Mapping[str, Family] = {
    name: Family(name, make, space, MEMBERS[name].seeds)
    for name, make, space in (
        ("edge-linear", edge(1), TOGETHER),
        ("edge-2-way", edge(2), TOGETHER),
        ("edge-3-way", edge(3), TOGETHER),
        ("links", behind_links, TOGETHER),
        ("replicas", replicated, ALL_PLANS),
        ("hosts-and-sockets", sockets(3, 2), TOGETHER),
        ("numa", sockets(1, 4), TOGETHER),
        ("cheapest-hosts", rented, ALL_PLANS),
    )
} | {"demanding": Family("demanding", demanding, TOGETHER, MEMBERS["demanding"].seeds, "e2e_latency_s")}


def families(names: str | None) -> Sequence[str]:
    """The families of a comma-separated list without duplicates, or all. Raises BadInput for none or unknown ones."""
    if names is None:
        return tuple(MEMBERS)
    wanted = list(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))
    if not wanted:
        raise BadInput(f"--families names none; {suggest('', MEMBERS)}")
    for name in wanted:
        if name not in MEMBERS:
            raise BadInput(f"unknown family {name!r}; {suggest(name, MEMBERS)}")
    return tuple(wanted)
