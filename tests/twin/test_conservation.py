"""The guard finds worlds that are broken by hand, one law each, and restarts that lose what a checkpoint held."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from types import ModuleType
from typing import Any

import pytest

from tests.twin.changing import job, run
from tests.twin.kernel.both import advancing
from twin.change import checkpoint as checkpoints
from twin.change import kept
from twin.deployment import Deployment
from twin.engine.logic import SinkLogic
from twin.engine.logics.select import SelectLogic
from twin.engine.windows.content import Content
from twin.engine.windows.window import WindowLogic
from twin.events import Failure
from twin.guards import conservation
from twin.guards.conservation import ConservationError
from twin.job import compile as compiled
from twin.kernel import bridge
from twin.scenario import RunSettings
from twin.wiring.build import build
from twin.wiring.wiring import Wiring
from twin.wiring.world import World
from twin.world import logics

MAP = {"kind": "map", "name": "m"}
SETTINGS = RunSettings(horizon_s=5.0, warmup_s=1.0, period_s=1.0)
DOWN = Failure(at_s=8.5, host="h1", recover_after_s=4)


def world_of(deployment: Deployment) -> World:
    world = build(Wiring(deployment, SETTINGS))
    world.env.run(until=5.0)
    return world


def add(holder: Any, name: str, amount: float) -> None:
    setattr(holder, name, getattr(holder, name) + amount)


def logic_of(world: World, kind: type) -> Any:
    return next(task.logic for tasks in world.tasks.values() for task in tasks if isinstance(task.logic, kind))


def deliver_twice(world: World, tuples: int) -> None:
    """Lets more arrive from a card than was put on it; as many tuples are lost by the network elsewhere."""
    add(world.nics["h0"], "tuples_out", tuples)
    add(world.ledger, "transfers", -tuples)


BREAKS: list[tuple[str, Callable[[World], None]]] = [
    ("arrived + moved + replayed = taken + backlog", lambda world: add(world.brokers["source"][0].source, "queued", 1)),
    ("arrived + moved + replayed = taken + backlog", lambda world: world.ledger.replayed.update({"source#0": 1})),
    ("made = sent + waiting + lost unsent", lambda world: add(world.tasks["m"][0].output, "tuples_out", 1)),
    ("made = sent + waiting + lost unsent", lambda world: add(world.streams["m", "a"].inboxes[1], "sent", -1)),
    ("made = sent + waiting + lost unsent", lambda world: add(world.tasks["a"][0].ports[0], "dropped", 1)),
    ("taken + queued + in flight", lambda world: add(world.tasks["a"][1], "queued", 1)),
    ("taken + queued + in flight", lambda world: add(world.ledger, "lost", 1)),
    ("taken + queued + in flight", lambda world: add(world.ledger, "restored", -1)),
    ("in = out + in flight at h0", lambda world: deliver_twice(world, 10**6)),
    ("held by checkpoints = restored at queues", lambda world: add(world.ledger, "due", 1)),
    ("held by checkpoints = restored at windows", lambda world: add(world.ledger, "windows_due", 1)),
    ("in = out + dropped", lambda world: add(logic_of(world, SelectLogic), "dropped", -1)),
    ("in = counted + in service", lambda world: add(logic_of(world, SinkLogic), "counted", 1)),
    ("work <= capacity", lambda world: add(next(iter(world.processors.values())), "work_s", 1e3)),
]


@pytest.mark.parametrize(("law", "broken"), BREAKS)
def test_a_broken_world_is_named(law: str, broken: Callable[[World], None]) -> None:
    deployment = job(first={"kind": "filter", "selectivity": 0.5})
    world = world_of(deployment)
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


@pytest.fixture(params=[checkpoints, kept], ids=["engine", "memory"])
def way(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    """How runs that fail go back to a checkpoint."""
    with advancing(bridge.run) if request.param is checkpoints else nullcontext():
        yield request.param


def test_a_restart_that_loses_a_queue_is_an_error(monkeypatch: pytest.MonkeyPatch, way: ModuleType) -> None:
    enqueue = way._enqueue
    lost = list[object]()

    def forgetful(world: World, record: Any) -> None:
        if not lost and getattr(record, "n", 1):
            lost.append(record)
        else:
            enqueue(world, record)

    busy = job(rate=2500)  # more than the map can do: something always waits
    monkeypatch.setattr(way, "_enqueue", forgetful)
    with pytest.raises(ConservationError, match="held by checkpoints = restored at queues"):
        run(busy, DOWN, horizon_s=14, checkpoint_interval_s=3)
    assert lost
    monkeypatch.setattr(way, "_enqueue", enqueue)
    assert run(busy, DOWN, horizon_s=14, checkpoint_interval_s=3).event_rows[0]["end_s"] == 12.5


def test_a_restart_that_loses_a_window_is_an_error(monkeypatch: pytest.MonkeyPatch, way: ModuleType) -> None:
    if way is kept:
        monkeypatch.setattr(logics.Content, "become", lambda content, *_: setattr(content, "count", 0))
    else:
        monkeypatch.setattr(WindowLogic, "_copied", lambda _, contents: tuple(Content() for _ in contents))
    with pytest.raises(ConservationError, match="held by checkpoints = restored at windows"):
        run(job(), DOWN, horizon_s=14, checkpoint_interval_s=3)
