"""All families of the suite. A new one is a line here and in `members`, and raises the version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from optimizers.space import ALL_PLANS
from scenarios.suite.families import TOGETHER, Family, behind_links, edge, replicated, sockets
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
    )
}


def families(names: str | None) -> Sequence[Family]:
    """Those of a comma-separated list, or all. Raises BadInput for none or an unknown one."""
    if names is None:
        return tuple(FAMILIES.values())
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    if not wanted:
        raise BadInput(f"--families names none; {suggest('', FAMILIES)}")
    for name in wanted:
        if name not in FAMILIES:
            raise BadInput(f"unknown family {name!r}; {suggest(name, FAMILIES)}")
    return tuple(FAMILIES[name] for name in wanted)
