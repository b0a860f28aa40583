"""Calibration: fits the constants of an engine profile to measured operating points, and says which stay unknown."""
