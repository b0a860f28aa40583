"""Enorm (DEBS 2016): its figures, a file each."""
