"""The suite, run: one piece a problem, each kept as soon as it is judged, in as many processes as there are cores."""
