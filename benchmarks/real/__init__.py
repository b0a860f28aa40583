"""Calibration judged: hidden engines, and measured runs of real ones from a folder that is not part of the project."""
