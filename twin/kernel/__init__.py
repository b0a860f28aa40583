"""The engine's common kinds at native speed, equal to it to the last bit."""
