"""Connections to real engines and machines: imports of their reports, profiles, and forecasts for running jobs."""
