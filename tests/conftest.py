"""Cores are shared, among tests and with whatever else runs: a slow example of a property is no failure."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("shared-cores", deadline=None)
settings.load_profile("shared-cores")
