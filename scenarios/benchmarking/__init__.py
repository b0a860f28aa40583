"""Runs the suite of problems in as many processes as there are cores; keeps the rows of each problem once judged."""
