"""Which replica gets which record, by brute force."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.ordinary.records import Array

KEYED = ("join", "session")


def draw_keys(each: Mapping[str, Any], law: Mapping[str, Any], count: int, rng: Any) -> Array:
    """Numbers of keys, of which as many are as the operator has; key k is in key group k modulo their number."""
    keys = each.get("groups") or each.get("keys") or each.get("key_groups", 1)
    if each["kind"] == "join":
        keys = round((1 / each["selectivity"]) ** (1 / (len(each["from"]) - 1)))
    groups = each.get("key_groups", keys)
    shares = np.array(law.get("shares") or np.arange(1, groups + 1.0) ** -law.get("zipf", 0.0))
    group = rng.choice(groups, size=count, p=shares / shares.sum())
    many = np.ceil((keys - group) / groups)
    return group + groups * (rng.random(count) * many).astype(int)


def dealt(each: Mapping[str, Any], how: str | None, k: int, t: Array, keys: Array, replicas: int, rng: Any) -> Any:
    """For each record from the producer's replica k, which replica gets it; None: all do."""
    keyed = each["kind"] in KEYED or "groups" in each or "key_groups" in each
    how = how or ("hash" if keyed else "rebalance")
    count = len(t)
    if how == "broadcast":
        return None
    if how in ("forward", "global", "shared"):
        return np.full(count, k if how == "forward" else 0)
    if how == "rebalance":
        return (np.arange(count) + rng.integers(replicas)) % replicas
    if how == "two-choice":
        return _of_two(keys % each["key_groups"], each["key_groups"], replicas, rng)
    if not keyed:
        return rng.integers(replicas, size=count)
    groups = each.get("key_groups")
    return keys % replicas if groups is None else (keys % groups) * replicas // groups


def _of_two(group: Array, groups: int, replicas: int, rng: Any) -> Array:
    pairs = np.array([rng.choice(replicas, 2, replace=False) for _ in range(groups)])
    sent, whose = [0] * replicas, np.empty(len(group), dtype=int)
    for k, (a, b) in enumerate(pairs[group]):
        whose[k] = a if sent[a] <= sent[b] else b
        sent[whose[k]] += 1
    return whose
