"""Partitionings: how a stream's records are dealt to the subtasks of its consumer, as traits that other code asks
for."""
