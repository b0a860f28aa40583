"""The guard finds worlds that are broken by hand, one law each, and restarts that lose what a checkpoint held."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.twin.changing import job, run
from tests.twin.worlds import world_of
from twin.change import kept
from twin.deployment import Deployment
from twin.events import Failure
from twin.guards import conservation
from twin.guards.conservation import ConservationError
from twin.job import compile as compiled
from twin.scenario import RunSettings
from twin.world import logic, windows
from twin.world.world import World

MAP = {"kind": "map", "name": "m"}
SETTINGS = RunSettings(horizon_s=5.0, warmup_s=1.0, period_s=1.0)
DOWN = Failure(at_s=8.5, host="h1", recover_after_s=4)


def ended(deployment: Deployment) -> World:
    """World of a run that has ended, with what is counted on request."""
    world = world_of(deployment, SETTINGS)
    world.advance(5.0)
    world.count()
    return world


def add(holder: Any, name: str, amount: float) -> None:
    setattr(holder, name, getattr(holder, name) + amount)


def logic_of(world: World, kind: type) -> Any:
    steps = [step for task in world.every_task() for step in task.logic.steps]
    return next(step for step in steps if isinstance(step, kind))


def deliver_twice(world: World, records: int) -> None:
    """Lets more arrive from a card than was put on it; as many records are lost by the network elsewhere."""
    add(world.cards["h0"], "pieces", -records)
    add(world.ledger, "transfers", -records)


BREAKS: list[tuple[str, Callable[[World], None]]] = [
    (
        "arrived + moved + replayed = taken + backlog",
        lambda world: add(world.brokers["source"][0].row, "again_count", 1),
    ),
    ("arrived + moved + replayed = taken + backlog", lambda world: world.ledger.replayed.update({"source#0": 1})),
    ("made = sent + waiting + lost unsent", lambda world: add(world.tasks["m"][0], "records_out", 1)),
    ("made = sent + waiting + lost unsent", lambda world: add(world.streams["m", "a"].inboxes[1], "sent", -1)),
    ("made = sent + waiting + lost unsent", lambda world: add(world.tasks["a"][0].ports[0], "dropped", 1)),
    ("taken + queued + in flight", lambda world: add(world.tasks["a"][1], "raw_queued", 1)),
    ("taken + queued + in flight", lambda world: add(world.ledger, "lost", 1)),
    ("taken + queued + in flight", lambda world: add(world.ledger, "restored", -1)),
    ("in = out + in flight at h0", lambda world: deliver_twice(world, 10**6)),
    ("held by checkpoints = restored at queues", lambda world: add(world.ledger, "due", 1)),
    ("held by checkpoints = restored at windows", lambda world: add(world.ledger, "windows_due", 1)),
    ("in = out + dropped", lambda world: add(logic_of(world, logic.SelectLogic), "dropped", -1)),
    ("in = counted + in service", lambda world: add(logic_of(world, logic.CollectLogic).counts, "counted", 1)),
    ("work <= capacity", lambda world: add(next(iter(world.processors.values())), "work_s", 1e3)),
]


@pytest.mark.parametrize(("law", "broken"), BREAKS)
def test_a_broken_world_is_named(law: str, broken: Callable[[World], None]) -> None:
    deployment = job(first={"kind": "filter", "selectivity": 0.5})
    world = ended(deployment)
    conservation.check(compiled(deployment), world)
    broken(world)
    with pytest.raises(ConservationError, match=law.replace("+", r"\+")):
        conservation.check(compiled(deployment), world)


def test_every_run_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: object, world: World) -> None:
        world.ledger.due = 1
        conservation_check(compiled(job()), world)

    conservation_check = conservation.check
    monkeypatch.setattr(conservation, "check", broken)
    with pytest.raises(ConservationError, match="held by checkpoints"):
        run(job(), horizon_s=3)


def test_a_restart_that_loses_a_queue_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    enqueue = kept._enqueue
    lost = list[object]()

    def forgetful(world: World, record: Any) -> None:
        if lost:
            enqueue(world, record)
        else:
            lost.append(record)

    busy = job(rate=2500)  # more than the map can do: something always waits
    monkeypatch.setattr(kept, "_enqueue", forgetful)
    with pytest.raises(ConservationError, match="held by checkpoints = restored at queues"):
        run(busy, DOWN, horizon_s=14, checkpoint_interval_s=3)
    assert lost
    monkeypatch.setattr(kept, "_enqueue", enqueue)
    assert run(busy, DOWN, horizon_s=14, checkpoint_interval_s=3).event_rows[0]["end_s"] == 12.5


def test_a_restart_that_loses_a_window_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows.Content, "become", lambda content, *_: setattr(content, "count", 0))
    with pytest.raises(ConservationError, match="held by checkpoints = restored at windows"):
        run(job(), DOWN, horizon_s=14, checkpoint_interval_s=3)
