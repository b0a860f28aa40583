"""State with a time to live against keys followed one by one; its moves, and its memory on hosts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.twin.changing import HOSTS
from tests.twin.worlds import chain
from twin.deployment import Deployment
from twin.events import Failure, Migration, RateChange, Scale
from twin.key_skew import zipf_shares
from twin.rates.model import RateModel
from twin.run import Run
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate

RATE, KEYS, TTL_S, BYTES = 80.0, 200, 4.0, 10_000


def job(zipf: float = 0.0, **more: Any) -> Deployment:
    """Job source -> state -> sink on four hosts; two subtasks keep a state of 10 kB for each of 200 keys."""
    state = {"kind": "keyed-state", "name": "state", "service_time_s": 1e-5, "keys": KEYS, "ttl_s": TTL_S}
    state |= {"state_bytes_per_key": BYTES, "key_groups": KEYS} | more
    places = {"source": "h0", "state": ["h1", "h2"], "sink": "h3"}
    keys = {"state": {"zipf": zipf}} if zipf else None
    return chain([state], RATE, hosts=HOSTS, placement=places, keys=keys)


def ran(what: Deployment, horizon_s: float = 16.0, seed: int = 0, **more: Any) -> Run:
    settings = RunSettings(horizon_s=horizon_s, warmup_s=4.0, period_s=1.0, seed=seed)
    return simulate(Scenario.of(what, settings, **more))


def held(found: Run) -> np.ndarray:
    """Keys with a state at the ends of the periods."""
    return np.array([row["stateBytes"] / BYTES for row in found.operator_rows if row["operator"] == "state"])


def followed(shares: np.ndarray, ttl_s: float, at_s: np.ndarray) -> np.ndarray:
    """Mean number of keys seen within the time to live, over 20 streams of records with keys."""
    rng, found = np.random.default_rng(5), np.zeros(len(at_s))
    for _ in range(20):
        times_s = np.sort(rng.random(rng.poisson(RATE * at_s[-1])) * at_s[-1])
        keys = rng.choice(len(shares), len(times_s), p=shares)
        for number, now_s in enumerate(at_s):
            found[number] += len(np.unique(keys[(times_s <= now_s) & (times_s > now_s - ttl_s)])) / 20
    return found


@pytest.mark.parametrize("zipf", [0.0, 1.0])
def test_as_many_keys_live_as_were_seen(zipf: float) -> None:
    """Live keys are those seen, from an empty start on; later the sum over keys of 1 - exp(-lambda_k ttl)."""
    mine = held(ran(job(zipf)))
    theirs = followed(zipf_shares(KEYS, zipf), TTL_S, np.arange(1.0, 17.0))
    assert (np.abs(mine - theirs) < 3 * np.sqrt(theirs)).all()
    each = RATE * zipf_shares(KEYS, zipf)
    assert mine[4:].mean() == pytest.approx(-np.expm1(-each * TTL_S).sum(), rel=0.05)


def test_without_a_time_to_live_state_grows() -> None:
    grown = held(ran(job(ttl_s=None)))
    expected = -KEYS * np.expm1(-RATE * np.arange(1.0, 17.0) / KEYS)
    assert (np.abs(grown - expected) < 3 * np.sqrt(expected)).all()


def test_keys_that_nobody_sees_are_forgotten() -> None:
    found = held(ran(job(), events=(RateChange(at_s=8, source="source", factor=1e-6),)))
    assert found[7] > 120
    assert found[13:].max() == pytest.approx(0.0, abs=1.0)


def test_what_lives_moves_and_survives() -> None:
    """A move costs the bytes of live keys, on a card of 100 Mbit/s; fewer with a shorter time to live."""
    moves = (Migration(at_s=8, operator="state", subtask=0, to="h3"),)
    for ttl_s in (TTL_S, TTL_S / 8):
        runs = [ran(job(ttl_s=ttl_s), 9.0, seed, events=moves) for seed in range(12)]
        moved = [run.event_rows[0]["bytes"] for run in runs]
        expected = BYTES * KEYS / 2 * -np.expm1(-RATE * ttl_s / KEYS)
        assert abs(np.mean(moved) - expected) < 4 * np.std(moved, ddof=1) / np.sqrt(12)
    changes = (Scale(at_s=6, operator="state", placement={"h1": 4}), Failure(at_s=9, host="h1", recover_after_s=1))
    after = held(ran(job(), events=changes))
    assert after[-1] == pytest.approx(after[4], rel=0.15)


def test_the_rate_model_fills_hosts_with_it() -> None:
    """The rate model fills two hosts of 64 GB with live state; what would not fit crashes."""
    large = job(keys=1_000_000, state_bytes_per_key=10**5)
    scenario = Scenario.of(large, RunSettings(horizon_s=10_000))
    live = RateModel().answer(scenario, [scenario.plan]).memory[0]
    law = large.engine.memory
    expected = RATE * TTL_S * 1e5 / 2 * law.object_overhead / 1e6
    assert live[1] * 64_000 - law.base_mb == pytest.approx(expected, rel=0.01)
    forever = Scenario.of(job(keys=1_000_000, state_bytes_per_key=10**5, ttl_s=None), RunSettings(horizon_s=10_000))
    assert RateModel().predict(forever, [forever.plan])["success"][0] < 0.5
    assert (
        "that rare keys of state expire, so that it holds fewer than of equally frequent ones"
        in RateModel().blind_to(Scenario.of(job(zipf=1.0)))
    )
