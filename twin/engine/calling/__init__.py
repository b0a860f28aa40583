"""Calls to systems outside of the job: who waits for an answer takes no CPU."""
