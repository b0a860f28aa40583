"""Profiles of operators: measured, written, read."""
