"""Logics: what a record becomes at a station. Those of windows have a room of their own."""
