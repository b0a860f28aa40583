"""Guards of a run: limits of its size before, laws that it must obey, and cautions for readers of its results."""
