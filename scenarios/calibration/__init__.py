"""Calibration: fits the constants of an engine profile to measured operating points, and tells which stay unknown."""
