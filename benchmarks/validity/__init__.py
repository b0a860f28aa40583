"""How far the simulator can be believed: theory, kernel against engine, published tables, invariants, in one report."""
