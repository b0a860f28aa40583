"""Plans: chosen, and proved."""
