"""Executors that make runs: processes of this machine, or a Spark cluster."""
