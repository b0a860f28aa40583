"""Report on how far the simulator can be believed: theory, kernel against engine, published tables, invariants."""
