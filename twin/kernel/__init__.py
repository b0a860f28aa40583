"""Kernel: the engine's common kinds at native speed, with results that are equal to the last bit."""
