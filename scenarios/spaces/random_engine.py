"""Engine profiles drawn at random, for models of engines whose constants nobody has measured yet.

A common factor on costs per tuple is log-uniform in the three decades below the `storm` profile, and each constant has
a log-normal factor of its own; `flink` and `brisk` lie inside. Channels, batches, variability and the memory law are
drawn as well.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from twin.profiles import STORM, EngineProfile, Memory, PerKind, PerType

DECADES = 3.0
OWN = 0.5
"""Standard deviation of the log of each constant's own factor."""
SERIALISATION = 0.6
"""Power of the common factor that applies to (de)serialisation: all engines move bytes at much the same speed."""


def log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    """Draws a number, log-uniform between low and high > 0."""
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def random_engine(rng: np.random.Generator) -> EngineProfile:
    """Draws an engine profile; all of its numbers come from `rng`."""
    factor = 10.0 ** (-DECADES * float(rng.random()))

    def cost(value: float, power: float = 1.0) -> float:
        return float(value * factor**power * np.exp(OWN * rng.standard_normal()))

    kinds = STORM.tuple_us.model_dump(exclude_none=True)
    values = STORM.value_us.model_dump()
    return EngineProfile(
        name="random",
        tuple_us=PerKind(**{kind: cost(micros) for kind, micros in kinds.items()}),
        value_us=PerType(**{kind: cost(micros) for kind, micros in values.items()}),
        result_us=cost(STORM.result_us),
        scan_us=cost(STORM.scan_us),
        serialise_ns_per_byte=cost(STORM.serialise_ns_per_byte, SERIALISATION),
        deserialise_ns_per_byte=cost(STORM.deserialise_ns_per_byte, SERIALISATION),
        service_scv=log_uniform(rng, 0.05, 2.0),
        value_bytes=PerType(ints=int(rng.integers(4, 9)), strings=int(rng.integers(12, 33)), doubles=8),
        tuple_bytes=int(rng.integers(8, 65)),
        channel_tuples=round(log_uniform(rng, 64, 8192)),
        memory=_memory(rng),
        context_switch=log_uniform(rng, 0.005, 0.2) if rng.random() < 0.4 else 0.0,
        **_batches(rng),
    )


def _memory(rng: np.random.Generator) -> Memory:
    return Memory(
        base_mb=log_uniform(rng, 100, 800),
        object_overhead=float(rng.uniform(2, 10)),
        onset=float(rng.uniform(0.4, 0.9)),
        crash=1.0,
        slowdown_at_crash=float(rng.uniform(1.5, 6)),
    )


def _batches(rng: np.random.Generator) -> dict[str, Any]:
    """Batches of an engine: half of the engines send each tuple at once, a quarter send batches of tuples, a quarter
    fill buffers of bytes."""
    kind, flush_s = float(rng.random()), log_uniform(rng, 0.002, 0.2)
    if kind < 0.5:
        return {}
    if kind < 0.75:
        return {"batch_tuples": round(log_uniform(rng, 2, 500)), "flush_s": flush_s}
    return {"buffer_bytes": log_uniform(rng, 1024, 65_536), "flush_s": flush_s}
