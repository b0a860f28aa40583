"""Kinds of operators: a file each, or one for those of one subject, with spec, traits, law, mechanism and advice."""
