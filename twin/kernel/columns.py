"""Attributes of the engine's objects as columns of the kernel's structures: those that both have under one name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Names = Mapping[str, str]
"""Field of a structure, by attribute of an object."""


def same(names: str) -> dict[str, str]:
    """Fields that are called as the attributes are."""
    return {name: name for name in names.split()}


TASK = same("tuples_in service_s busy_s free_s in_service_work_s busy halted") | {"_since_s": "since_s"}
OUTPUT = same("blocked tuples_out send_s blocked_s blocked_since_s")
INBOX = same("credits capacity sent side beyond_s")
WAY = same("tuples took_s")
PORT = same("dropped passed_over send_s")
CARD = same("tuples_in bytes_per_s bytes_out backlog_s last_s")
PROCESSOR = same("capacity slowdown speed work_s level clock shared") | {"since_s": "since", "_sequence": "sequence"}
SINK = same("count counted processing_sum_s e2e_sum_s")
LEG = same("tuples latency_s bytes_each")
WHETHER = ("busy", "halted", "shared")
"""Those that are true or false."""


def fill(structures: np.ndarray, objects: Sequence[Any], names: Names) -> None:
    """Writes attributes into the structures. [objects]"""
    for attribute, field in names.items():
        structures[field] = [getattr(each, attribute) for each in objects]


def write_back(structures: np.ndarray, objects: Sequence[Any], names: Names) -> None:
    """Writes what is in the structures to the attributes. [objects]"""
    for attribute, field in names.items():
        values = structures[field].tolist()
        if attribute in WHETHER:
            values = map(bool, values)
        for each, value in zip(objects, values, strict=True):
            setattr(each, attribute, value)
