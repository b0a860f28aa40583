"""What has to move so that an operator's tuples go where they are wanted: key groups, or shares of all tuples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from twin.change.fan import NO_SHARE

if TYPE_CHECKING:
    from twin.engine.keys.groups import KeyGroups
    from twin.engine.state import Leaves


@dataclass(frozen=True, slots=True)
class KeyFlow:
    """A share of an operator's tuples, with its state, from one index of its fan to another."""

    source: int
    target: int
    amount: float
    groups: tuple[int, ...] = ()


def keys_of(keys: KeyGroups, flow: KeyFlow) -> Leaves:
    """A function that tells whether a key is in the key groups that move."""
    groups = set(flow.groups)
    return lambda key: keys.group_of(key) in groups


def flows_to(keys: KeyGroups, owners: Mapping[int, int]) -> list[KeyFlow]:
    """The flows that bring key groups to new owners: one from each old owner to each new one."""
    moves: dict[tuple[int, int], list[int]] = {}
    for group, owner in owners.items():
        if keys.owner[group] != owner:
            moves.setdefault((keys.owner[group], owner), []).append(group)
    return [
        KeyFlow(source, target, float(sum(keys.weights[group] for group in groups)), tuple(groups))
        for (source, target), groups in moves.items()
    ]


def even_flows(shares: Sequence[float], stay: Sequence[int]) -> list[KeyFlow]:
    """The fewest flows that give each index of `stay` the same share and all others none."""
    even = 1.0 / len(stay)
    surplus = {k: share - (even if k in stay else 0.0) for k, share in enumerate(shares)}
    givers = [k for k, more in surplus.items() if more > NO_SHARE]
    flows = []
    for taker in (k for k, more in surplus.items() if more < -NO_SHARE):
        while givers and surplus[taker] < -NO_SHARE:
            amount = min(surplus[givers[0]], -surplus[taker])
            flows.append(KeyFlow(givers[0], taker, amount))
            surplus[givers[0]] -= amount
            surplus[taker] += amount
            if surplus[givers[0]] <= NO_SHARE:
                givers.pop(0)
    return flows


def even_group_flows(keys: KeyGroups, stay: Sequence[int]) -> list[KeyFlow]:
    """Key groups from replicas that leave or carry too much to those that carry least, to few targets each."""
    load = dict.fromkeys(stay, 0.0)
    homeless: list[int] = []
    even = sum(keys.weights) / len(stay)
    for group in sorted(range(len(keys.owner)), key=lambda group: (-keys.weights[group], group)):
        owner = keys.owner[group]
        if owner in load and load[owner] + keys.weights[group] <= even * (1.0 + 1e-9):
            load[owner] += keys.weights[group]
        else:
            homeless.append(group)
    owners: dict[int, int] = {}
    target = stay[0]
    for group in sorted(homeless, key=lambda group: keys.owner[group]):  # stable: heaviest first of each owner
        if load[target] + keys.weights[group] > even * (1.0 + 1e-9):
            target = min(stay, key=lambda index: (load[index], index))
        load[target] += keys.weights[group]
        owners[group] = target
    return flows_to(keys, owners)
