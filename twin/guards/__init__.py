"""What a run is held to: its size before, its laws after, and what its reader should know."""
