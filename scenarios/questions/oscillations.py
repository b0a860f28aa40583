"""Changes that take back the one before: the price of a controller that does not settle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from twin.deployment import Deployment
from twin.keys import contiguous, group_count


def oscillations(events: Sequence[Mapping[str, Any]], deployment: Deployment) -> int:
    """Rescalings against the direction of the operator's last one, and moves of a replica or key group back to where it
    was before its last move. events: rows of a run, in order; what was refused has changed nothing.
    """
    return sum(_turns(events)) + sum(_returns(events, deployment))


def moved(event: Mapping[str, Any]) -> int:
    """Key groups that a migration was of; 1 of a whole replica; 0 where it was refused, or the run ended before it."""
    detail = event["detail"]
    return 0 if "refused" in detail else len(detail.get("key_groups", ())) or int("replica" in detail)


def _turns(events: Sequence[Mapping[str, Any]]) -> Iterator[int]:
    last: dict[str, int] = {}
    for event in events:
        detail = event["detail"]
        if event["kind"] != "scale" or "after" not in detail or detail["after"] == detail["before"]:
            continue
        up = 1 if detail["after"] > detail["before"] else -1
        yield int(last.get(event["component"], up) != up)
        last[event["component"]] = up


def _returns(events: Sequence[Mapping[str, Any]], deployment: Deployment) -> Iterator[int]:
    """1 for each move back to the place before the last one, 0 for others. A rescaling forgets earlier places."""
    where = _start(deployment)
    before: dict[tuple[str, str, int], str] = {}
    for event in events:
        operator, detail = event["component"], event["detail"]
        if event["kind"] == "scale":
            where = {key: place for key, place in where.items() if key[1] != operator}
            before = {key: place for key, place in before.items() if key[1] != operator}
        if event["kind"] != "migration" or not moved(event):
            continue
        groups = detail.get("key_groups")
        movers = [("replica", operator, detail["replica"])] if groups is None else []
        for key in movers or [("group", operator, group) for group in groups]:
            target = _target(detail, operator, deployment)
            yield int(before.get(key) == target and where.get(key) != target)
            if key in where:
                before[key] = where[key]
            where[key] = target


def _start(deployment: Deployment) -> dict[tuple[str, str, int], str]:
    found: dict[tuple[str, str, int], str] = {}
    for name, places in deployment.plan.placement.items():
        found |= {("replica", name, number): place for number, place in enumerate(places)}
        groups = group_count(deployment.query, name, len(places))
        if groups is not None:
            owners = deployment.plan.key_groups.get(name) or contiguous(groups, len(places))
            found |= {("group", name, group): places[owner] for group, owner in enumerate(owners)}
    return found


def _target(detail: Mapping[str, Any], operator: str, deployment: Deployment) -> str:
    """A place; the number of a replica that the plan does not have."""
    if "to" in detail:
        return str(detail["to"])
    places = deployment.plan.placement[operator]
    return places[detail["to_replica"]] if detail["to_replica"] < len(places) else f"#{detail['to_replica']}"
