"""A Flink of the Python package index on this machine, for the benchmarks that run real jobs."""
