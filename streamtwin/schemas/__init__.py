"""What commands print with --json, described."""
