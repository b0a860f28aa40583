"""Experiments of Enorm (DEBS 2016)."""
