"""Strategies by which key groups of operators change hands while they run (Enorm, Sections 4.5 and 5)."""
