"""Reports: a run, a scenario or an answer as one page that needs nothing else, for `twin report`."""
