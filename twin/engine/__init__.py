"""The simulator's mechanisms, one SimPy mechanism a file. `twin.simulation` wires them together."""

from twin.engine.compiled import choose

ENGINE = choose()
"""Which of the two runs, "compiled" or "python"."""
