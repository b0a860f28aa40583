"""Experiments of Enorm (DEBS 2016), a file a figure."""
