"""Logics of the operators without windows: they decide what a record becomes at a station."""
