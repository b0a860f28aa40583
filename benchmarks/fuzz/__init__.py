"""Damaged and senseless input of every kind: it is refused in one line, or it runs; nothing else may happen."""
