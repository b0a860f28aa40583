"""Ordinary jobs, judged by brute force."""
