"""Arrival laws, one a file: what a source's broker receives, and when."""
