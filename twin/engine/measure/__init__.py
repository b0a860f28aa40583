"""Measurements: what is counted while a job runs."""
