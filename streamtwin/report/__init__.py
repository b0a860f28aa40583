"""`twin report`: a run, a scenario or an answer as one page that needs nothing else."""
