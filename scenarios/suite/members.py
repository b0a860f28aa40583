"""Contents of the suite by family: a line about it, and the seeds of its members, without making any.

Members of families that ask for a placement have the first seeds whose jobs have fifty plans or more, one of which
keeps up by the rate model, and brings twenty results or more in a run. In `demanding`, the best plan by the rate model
is also overloaded in bursts. Jobs that ask for the cheapest hosts have a plan that keeps up with head room by the rate
model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

VERSION = 4
"""Version of the suite. 2 added families that ask for something else than a placement, 3 added `demanding`, 4
`nexmark`. Members of earlier versions are unchanged."""


@dataclass(frozen=True, slots=True)
class Members:
    """Members of one family. asks: the kind of answer, which chooses the judge (`scenarios/benchmarking`)."""

    summary: str
    seeds: tuple[int, ...]
    asks: str = "placement"


MEMBERS: Mapping[str, Members] = {
    "edge-linear": Members(
        "one source, Costream's hosts",
        (9000, 9001, 9002, 9004, 9005, 9006, 9007, 9008, 9009, 9011, 9013, 9014),
    ),
    "edge-2-way": Members(
        "two sources and a join",
        (9101, 9102, 9104, 9105, 9106, 9107, 9109, 9110, 9112, 9114, 9116, 9117),
    ),
    "edge-3-way": Members(
        "three sources and two joins",
        (9202, 9204, 9209, 9216, 9217, 9219, 9220, 9221, 9225, 9227),
    ),
    "links": Members("gateways, fog and cloud behind links; sources are pinned", tuple(range(9300, 9310))),
    "replicas": Members("two subtasks an operator, on equal hosts", tuple(range(9400, 9408))),
    "hosts-and-sockets": Members(
        "three hosts of two sockets",
        (9500, 9501, 9502, 9503, 9504, 9505, 9507, 9508),
    ),
    "numa": Members("one host of four sockets", (9600, 9601, 9602, 9604, 9605, 9606, 9607, 9608)),
    "demanding": Members(
        "arrivals in bursts, on hosts of one core each",
        (
            *(10000, 10001, 10002, 10003, 10004, 10008, 10009, 10010, 10011, 10012, 10014, 10016),
            *(10017, 10018, 10019, 10020, 10023, 10024, 10025, 10026, 10027, 10028, 10029, 10030),
        ),
    ),
    "nexmark": Members(
        "SQL jobs of Flink on four task managers, three subtasks an operator", (3, 4, 8, 9, 17, 18, 19, 20)
    ),
    "cheapest-hosts": Members(
        "six hosts at two prices, for a given rate with head room",
        (9700, 9701, 9702, 9704, 9705, 9706, 9707, 9708),
        asks="hosts",
    ),
    "key-groups": Members(
        "key groups on unequally loaded nodes; a limited number may migrate", tuple(range(9800, 9812)), asks="balance"
    ),
    "changing-load": Members(
        "loads that rise and fall while the job runs; a policy may scale it", tuple(range(9900, 9906)), asks="policy"
    ),
}
JUDGED: Mapping[str, str] = {
    "placement": "regret in the simulator",
    "hosts": "price of hosts over the cheapest, proved in the simulator",
    "balance": "what is left of the imbalance that can be removed, computed",
    "policy": "end-to-end latency over the best, in the simulator",
}
"""Meaning of regret, by the kind of answer that a family asks for."""
