"""JSON Schemas of the documents that commands print with --json."""
