"""Runs the suite: each problem is a piece, kept as soon as it is judged; there are as many processes as cores."""
