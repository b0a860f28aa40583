"""How a stream's tuples are dealt to the replicas of its consumer: a table of traits, which everybody else asks."""
