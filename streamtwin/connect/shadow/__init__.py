"""A twin beside a running job: what its metrics say, what is coming, and what would avoid it."""
