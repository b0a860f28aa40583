"""Replication and placement on NUMA sockets (BriskStream, SIGMOD 2019): RLAS and its baselines."""
