"""Costream (ICDE 2024): its tables and figures."""
