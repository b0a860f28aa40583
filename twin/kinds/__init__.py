"""What operators are: a file a kind, with its spec, its traits, its law, its mechanism and its advice."""
