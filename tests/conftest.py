"""Two ways to run properties: with the same examples everywhere, or with new ones each time, to look for faults.

Cores are shared, among tests and with whatever else runs: a slow example of a property is no failure. One that fails is
told so that it can be run again elsewhere.
"""

from __future__ import annotations

import gc

from hypothesis import HealthCheck, settings

settings.register_profile(
    "explore", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True, derandomize=False
)
settings.register_profile("same", settings.get_profile("explore"), derandomize=True)
settings.load_profile("same")

# A tenth of the tests' CPU time went into looking for garbage among the objects of modules, which there is none of.
gc.set_threshold(50_000, 20, 100)
