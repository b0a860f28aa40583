"""Partitionings: how a stream's tuples are dealt to the replicas of its consumer, as traits that other code asks
for."""
