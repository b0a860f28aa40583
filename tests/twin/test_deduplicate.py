"""Deduplication against rows that are followed one by one, and the law of keys that come for the first time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from tests.twin.changing import HOSTS, column
from tests.twin.followed import Followed, Taken, following
from tests.twin.worlds import chain, noting_worlds, simulated
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.events import AnyEvent, Failure, Migration, Scale
from twin.operators.updates import DeduplicateLogic
from twin.rates.model import RateModel
from twin.run import Run
from twin.scenario import RunSettings, Scenario

RATE, KEYS = 200.0, 300


def job(parallelism: int = 2, zipf: float = 0.0, **more: Any) -> Deployment:
    """Job source -> dedup -> sink on four hosts."""
    dedup = {"kind": "deduplicate", "name": "dedup", "service_time_s": 1e-4, "keys": KEYS, "key_groups": 16} | more
    places = {"source": "h0", "dedup": ["h1", "h2"][:parallelism], "sink": "h3"}
    return chain([dedup], RATE, hosts=HOSTS, placement=places, keys={"dedup": {"zipf": zipf}} if zipf else None)


def ran(
    what: Deployment, horizon_s: float = 24.0, seed: int = 0, events: tuple[AnyEvent, ...] = ()
) -> tuple[Run, Followed, dict[int, float]]:
    """A run, what was followed of it, and the rows that are left, by key: when they were written."""
    with following(DeduplicateLogic) as found, noting_worlds() as worlds:
        run = simulated(what, *events, horizon_s=horizon_s, warmup_s=0.0, period_s=2.0, seed=seed)
    left: dict[int, float] = {}
    for task in worlds[0].tasks["dedup"]:
        logic: Any = task.logic.steps[0]
        assert logic.inner.held_bytes() == 100.0 * logic.inner.held()
        left |= {key: row.at for key, (row,) in logic.inner.tables[0].by_key.items()}
    return run, found, left


def brute_force(taken: Iterable[Taken], last: bool, retracts: bool, ttl_s: float) -> tuple[list[int], dict[int, float]]:
    """Number of results of each record, and when the rows that there are in the end were written."""
    sent, rows = list[int](), dict[int, float]()
    for each in taken:
        known = each.key in rows and rows[each.key] + ttl_s > each.came_s
        if last or not known:
            rows[each.key] = each.came_s
        sent.append((1 + retracts if known else 1) if last else int(not known))
    return sent, rows


WAYS = [("first", "retract"), ("last", "retract"), ("last", "upsert")]


@pytest.mark.parametrize(("keep", "changelog"), WAYS)
@pytest.mark.parametrize("ttl_s", [None, 1.5])
@pytest.mark.parametrize(
    "events",
    [
        (),
        (Failure(at_s=9.0, host="h1", recover_after_s=2.0),),
        (
            Scale(at_s=6.0, operator="dedup", placement=("h1", "h2", "h3")),
            Scale(at_s=14.0, operator="dedup", placement=("h2",)),
        ),
        (Migration(at_s=8.0, operator="dedup", key_groups=(0, 1, 2), to_subtask=1),),
    ],
    ids=["plain", "failure", "scale", "move"],
)
def test_each_record_sends_what_brute_force_says(keep: str, changelog: str, ttl_s: float | None, events: Any) -> None:
    """Results of each record, and the rows that are left, are those of a dict of keys: also after a failure, where
    records are read again, and where rows have moved."""
    run, found, left = ran(job(keep=keep, changelog=changelog, ttl_s=ttl_s), events=events)
    sent, rows = brute_force(found.order, keep == "last", changelog == "retract", ttl_s or np.inf)
    assert [len(each.results) for each in found.order] == sent
    assert left == {key: at_s for key, at_s in rows.items() if at_s + (ttl_s or np.inf) > 24.0}
    assert len(found.order) > 4000
    assert (found.undone > 0) == isinstance(events[0] if events else None, Failure)
    for each in found.order:
        assert {(result.born_s, result.key) for result in each.results} <= {(each.born_s, each.key)}
    if not events:
        assert sum(column(run, "dedup", "numRecordsOut")) == sum(sent)


@pytest.mark.parametrize(("keep", "changelog"), WAYS)
@pytest.mark.parametrize("ttl_s", [None, 0.6, 4.0])
def test_the_rate_model_knows_how_many_are_first(keep: str, changelog: str, ttl_s: float | None) -> None:
    """Results a second and rows that are left are means of runs, within four standard errors."""
    given = job(keep=keep, changelog=changelog, ttl_s=ttl_s)
    found = [ran(given, 6.0, seed) for seed in range(12)]
    scenario = Scenario.of(given, RunSettings(horizon_s=6.0))
    (answer,) = [RateModel().answer(scenario, [given.plan])]
    assert not RateModel().blind_to(scenario)
    counts = np.array([each.sent / 6.0 for _, each, _ in found])
    said = RateModel().predict(scenario, [given.plan])["throughput_per_s"][0]
    assert abs(counts.mean() - said) < 4.0 * counts.std(ddof=1) / np.sqrt(12)
    rows = np.array([len(left) for _, _, left in found])
    operator: Any = given.query.operator("dedup")
    held = float(operator.state_bytes(np.array([RATE]), 6.0)[0]) / 100.0
    assert abs(rows.mean() - held) < 4.0 * max(rows.std(ddof=1), 0.5) / np.sqrt(12)
    assert answer.memory[0].max() > 0.0


def test_unlike_keys_are_said_to_be_ignored() -> None:
    (words,) = [each for each in RateModel().blind_to(Scenario.of(job(zipf=1.0))) if "rare keys" in each]
    assert "rare keys of dedup" in words


def test_mistakes_get_a_line() -> None:
    with pytest.raises(BadInput, match="keep"):
        job(keep="second")
