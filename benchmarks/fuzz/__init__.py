"""Fuzzing with damaged and senseless input of every kind: it must be refused in one line, or run."""
