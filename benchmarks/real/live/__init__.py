"""Judges the twin by a real local Flink: jobs run, are imported, calibrated on half of their points, and predicted."""
