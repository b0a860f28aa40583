"""Changes of a running job by options such as `--rescale match=4`, `--migrate match[1]=w-2`, `--fail w-1`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from scenarios.files.overrides import parted
from scenarios.questions.knobs import check_operator
from twin.deployment import Deployment
from twin.errors import BadInput, suggest
from twin.plan import Location
from twin.scenario import Scenario
from twin.scheduling import resized
from twin.spec import parse

_REPLICA = re.compile(r"^(?P<operator>[^\[\]]+)(\[(?P<replica>\d+)\])?$")
_COUNT = re.compile(r"-?[0-9]{1,18}")
FAILOVERS = ("region", "full", "both")
LOST = ("spread", "wait")
USUAL_RECOVERY_S = 10.0
"""Default time of detection and restart after a failure."""
USUAL_SHARE = 1 / 3
"""Default time of changes, as a share of the time after the warm-up; the larger part is left to catch up."""


class ChangeOptions(NamedTuple):
    """Options of changes, which all happen at `at_s`. recover_after_s: seconds of detection and restart after a
    failure; None: 10. failover: the part that a failure restarts: `region`, `full`, or `both` for a comparison. lost:
    failed hosts stay away, and their subtasks `spread` over the others, or `wait` as the whole job does; None: hosts
    come back."""

    rescale: Sequence[str] = ()
    migrate: Sequence[str] = ()
    fail: Sequence[str] = ()
    at_s: float | None = None
    recover_after_s: float | None = None
    failover: str | None = None
    lost: str | None = None


class Planned(NamedTuple):
    """Scenario with a change, the time of the change, and its description in words.

    own: number of events, the last ones, that are the change. spread_s: the change comes at any time in this interval
    after at_s. rival: the scenario where a failure restarts the whole job, for a comparison.
    """

    scenario: Scenario
    at_s: float
    words: str
    own: int = 0
    spread_s: float = 0.0
    rival: Scenario | None = None


def planned(given: Scenario, change: ChangeOptions) -> Planned:
    """Scenario with the changes. Raises BadInput if there are none, or if one is impossible or not within the run."""
    at_s = change.at_s if change.at_s is not None else _usual_s(given)
    if not given.run.warmup_s <= at_s < given.run.horizon_s:
        within = f"{given.run.warmup_s:g} s (the end of the warm-up) to {given.run.horizon_s:g} s"
        raise BadInput(f"--at {at_s:g}: not within the run; give seconds from {within}")
    events = [*_rescales(given, change), *_migrations(given, change), *_failures(given, change)]
    if not events:
        raise BadInput("nothing to try; give --rescale OPERATOR=4, --migrate OPERATOR=HOST or --fail HOST")
    _check_failover(given, change)
    spread_s = _spread_s(given, change, at_s)
    data = given.model_dump(mode="json")
    data["events"] = [*data["events"], *({**event, "at_s": at_s} for event in events)]
    if change.failover is not None:
        data["checkpoints"]["failover"] = "full" if change.failover == "full" else "region"
    counts = [f"{text} subtasks" if text.partition("=")[2].isdigit() else text for text in change.rescale]
    told = {"rescale": counts, "migrate": change.migrate, "fail": change.fail}
    named = "; ".join(f"{what} {', '.join(texts)}" for what, texts in told.items() if texts)
    asked = (("rescale", change.rescale), ("migrate", change.migrate), ("fail", change.fail))
    flags = " ".join(f"--{what} {text}" for what, texts in asked for text in texts)
    when = f"at {at_s:g} s" if not spread_s else f"at times from {at_s:g} to {at_s + spread_s:g} s"
    tails = {"spread": ", lost: others take its subtasks", "wait": ", lost: the job waits for it to the end"}
    words = f"{named} {when}{tails.get(change.lost or '', '')}"
    made = parse(Scenario, data, where=flags)
    rival = None
    if change.failover == "both":
        data["checkpoints"]["failover"] = "full"
        rival = parse(Scenario, data, where=flags)
    return Planned(made, at_s, words, len(events), spread_s, rival)


def _check_failover(given: Scenario, change: ChangeOptions) -> None:
    if change.failover is None:
        return
    if change.failover not in FAILOVERS:
        raise BadInput(f"--failover {change.failover}: {suggest(change.failover, FAILOVERS)}")
    if not change.fail:
        raise BadInput("--failover: says what a failure restarts; give --fail HOST, too")
    if given.checkpoints is None:
        remedy = "add --set 'checkpoints={interval_s: 10}'"
        raise BadInput(f"--failover: {given.name} has no checkpoints to restart a part of it from; {remedy}")


def _spread_s(given: Scenario, change: ChangeOptions, at_s: float) -> float:
    """Seconds over which the time of a change is spread over repetitions: the checkpoint interval, as the distance to
    the last checkpoint matters. 0 if the time is given, or nothing goes back to a checkpoint."""
    if change.at_s is not None or not (change.fail or given.engine.rescaling.how == "reactive"):
        return 0.0
    interval_s = given.checkpoints.interval_s if given.checkpoints else given.run.checkpoint_interval_s
    return min(interval_s, (given.run.horizon_s - at_s) / 2)


def _usual_s(given: Scenario) -> float:
    start_s, end_s = given.run.warmup_s, given.run.horizon_s
    return max(start_s, float(f"{start_s + (end_s - start_s) * USUAL_SHARE:.3g}"))


def _rescales(given: Scenario, change: ChangeOptions) -> Iterator[Mapping[str, Any]]:
    """Scale events. Places are listed; or the engine finds them for a number of subtasks (`twin.scheduling`)."""
    now: Deployment = given
    for text in change.rescale:
        name, wanted = parted(text, "--rescale", "OPERATOR=4 or OPERATOR=HOST,HOST", empty=False)
        check_operator(name, given, f"--rescale {text}")
        if _COUNT.fullmatch(wanted):
            if int(wanted) < 1:
                raise BadInput(f"--rescale {text}: {wanted} subtasks; give a whole number from 1, or places")
            placed = resized(now, name, int(wanted), f"--rescale {text}")
            now = now.model_copy(update={"plan": now.plan.with_placement(now.plan.placement | placed)})
            yield {"kind": "scale", "operator": name, "placement": placed[name]}
        else:
            places = [_place(each, given, f"--rescale {text}") for each in wanted.split(",")]
            yield {"kind": "scale", "operator": name, "placement": places}


def _migrations(given: Scenario, change: ChangeOptions) -> Iterator[Mapping[str, Any]]:
    """Migration events: of one replica, or of all replicas of an operator that are not at the place yet."""
    for text in change.migrate:
        who, to = parted(text, "--migrate", "OPERATOR=HOST, or OPERATOR[1]=HOST for one replica", empty=False)
        match = _REPLICA.match(who)
        name = match["operator"] if match else who
        check_operator(name, given, f"--migrate {text}")
        place = _place(to, given, f"--migrate {text}")
        count = given.plan.replicas(name)
        replicas = [int(match["replica"])] if match and match["replica"] else range(count)
        moving = [each for each in replicas if each >= count or given.plan.placement[name][each] != place]
        if not moving:
            raise BadInput(f"--migrate {text}: it is there already")
        for replica in moving:
            yield {"kind": "migration", "operator": name, "replica": replica, "to": place}


def _failures(given: Scenario, change: ChangeOptions) -> Iterator[Mapping[str, Any]]:
    hosts = [host.name for host in given.cluster.hosts]
    if change.lost is not None and change.lost not in LOST:
        raise BadInput(f"--lost {change.lost}: {suggest(change.lost, LOST)}")
    if change.lost is not None and not change.fail:
        raise BadInput("--lost goes with a failure; give --fail HOST as well")
    if change.lost == "wait" and change.recover_after_s is not None:
        raise BadInput(
            "--recover-after: with --lost wait the job never runs again; leave it out, or give --lost spread"
        )
    usual_s = USUAL_RECOVERY_S if change.recover_after_s is None else change.recover_after_s
    recover_after_s = None if change.lost == "wait" else usual_s
    for name in change.fail:
        if name not in hosts:
            raise BadInput(f"--fail {name}: unknown host; {suggest(name, hosts)}")
        yield {"kind": "failure", "host": name, "recover_after_s": recover_after_s, "lost": change.lost == "spread"}


def _place(text: str, given: Scenario, where: str) -> str:
    """Place in the form of a plan. Raises BadInput for an unknown host."""
    try:
        host = Location.parse(text.strip()).host
    except ValueError as error:
        raise BadInput(f"{where}: {error}") from None
    hosts = [each.name for each in given.cluster.hosts]
    if host not in hosts:
        raise BadInput(f"{where}: unknown host {host!r}; {suggest(host, hosts)}")
    return text.strip()
