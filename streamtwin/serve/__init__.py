"""`twin serve`: the questions of the command line, asked and answered on a local page."""
