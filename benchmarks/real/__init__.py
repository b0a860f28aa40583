"""Judges calibration by hidden engines, and by measured runs of real ones from a folder outside of the project."""
