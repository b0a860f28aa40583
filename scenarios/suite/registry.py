"""All families of the suite. A new one is a line here, and raises the version.

Members are those of the first seeds that have fifty plans or more, one of which keeps up by the rate model, and in a
run brings twenty results or more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from optimizers.space import ALL_PLANS
from scenarios.suite.families import TOGETHER, Family, behind_links, edge, replicated, sockets
from twin.errors import BadInput, suggest

VERSION = 1

FAMILIES: Mapping[str, Family] = {
    each.name: each
    for each in (
        Family("edge-linear", "one source, Costream's hosts", edge(1), TOGETHER,
               (9000, 9001, 9002, 9004, 9005, 9006, 9007, 9008, 9009, 9011, 9013, 9014)),
        Family("edge-2-way", "two sources and a join", edge(2), TOGETHER,
               (9101, 9102, 9104, 9105, 9106, 9107, 9109, 9110, 9112, 9114, 9116, 9117)),
        Family("edge-3-way", "three sources and two joins", edge(3), TOGETHER,
               (9202, 9204, 9209, 9216, 9217, 9219, 9220, 9221, 9225, 9227)),
        Family("links", "gateways, fog and cloud behind links; sources are pinned", behind_links, TOGETHER,
               tuple(range(9300, 9310))),
        Family("replicas", "two replicas an operator, which may part", replicated, ALL_PLANS,
               tuple(range(9400, 9408))),
        Family("hosts-and-sockets", "three hosts of two sockets", sockets(3, 2), TOGETHER,
               (9500, 9501, 9502, 9503, 9504, 9505, 9507, 9508)),
        Family("numa", "one host of four sockets", sockets(1, 4), TOGETHER,
               (9600, 9601, 9602, 9604, 9605, 9606, 9607, 9608)),
    )
}  # fmt: skip


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
