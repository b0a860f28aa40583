"""The simulator's mechanisms, one SimPy mechanism a file. `twin.simulation` wires them together."""
