"""Replication and placement on NUMA sockets (BriskStream, SIGMOD 2019): RLAS, and what it is compared with."""
