"""Corpora: many runs in one folder, with the spec that decides them, the chunks that are simulated, and a data card."""
