"""Who gets the processor, and how long work and its waiting take."""
