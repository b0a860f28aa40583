"""Comparison of this simulator with hand-written SimPy and with Ciw on small models: speed, memory and error."""
