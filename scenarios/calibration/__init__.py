"""Calibration: from measured operating points to the constants of an engine profile, with what the data do not say."""
