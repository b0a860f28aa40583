"""The simulator's compiled code: what every record meets, on structures that the world in Python reads, too."""
