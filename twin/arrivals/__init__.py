"""Arrival laws, one a file: times and rates at which records reach a source's broker."""
