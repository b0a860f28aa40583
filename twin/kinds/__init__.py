"""Kinds of operators: one file each, with spec, traits, law, mechanism and advice."""
