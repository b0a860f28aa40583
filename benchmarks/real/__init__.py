"""Calibration judged by real engines."""
