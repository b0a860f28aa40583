"""Spaces from which random scenarios are drawn."""
