"""Profiles of property tests: with the same few examples everywhere, or with new ones each time, to look for faults.

Cores are shared, among tests and with whatever else runs: a slow example of a property is no failure. A failing example
is printed such that it can be run again elsewhere.
"""

from __future__ import annotations

import gc
import os

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "explore", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True, derandomize=False
)
settings.register_profile("same", settings.get_profile("explore"), derandomize=True, max_examples=40)
settings.load_profile("same")

os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"  # XLA would optimise networks that run once, also in commands
# A tenth of the tests' CPU time went into looking for garbage among the objects of modules, which there is none of.
gc.set_threshold(50_000, 20, 100)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sorts files with slow tests to the front: a process that began one last would run on alone."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)
