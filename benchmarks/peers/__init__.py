"""The same small models in this simulator, in hand-written SimPy and in Ciw: speed, memory and error in one run."""
