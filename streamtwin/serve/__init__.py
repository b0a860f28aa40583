"""Server of a local page on which the questions of the command line are asked and answered, for `twin serve`."""
