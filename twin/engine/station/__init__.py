"""Stations: they queue records, have credits, take CPU and align control items. Their logic makes results."""
