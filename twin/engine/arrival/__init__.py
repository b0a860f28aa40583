"""How tuples reach a job: clocks, brokers, recordings."""
