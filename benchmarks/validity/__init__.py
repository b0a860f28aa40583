"""Report on how far the simulator can be believed: theory, compiled code beside plain Python, invariants."""
