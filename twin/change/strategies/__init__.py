"""How key groups of operators over event time change hands while they run (Enorm, Sections 4.5 and 5)."""
