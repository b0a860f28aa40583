"""Active learning: a cost model chooses plans to simulate, and learns from their runs, where it is used."""
