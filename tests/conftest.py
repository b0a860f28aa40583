"""Cores are shared, among tests and with whatever else runs: a slow example of a property is no failure, and one that
fails is told so that it can be run again elsewhere."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("shared-cores", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("shared-cores")
