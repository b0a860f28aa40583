"""Demo of the whole loop, with its folder and its page, for `twin demo`."""
