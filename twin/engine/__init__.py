"""Mechanisms of the simulator, one a file. `twin.simulation` wires them together."""
