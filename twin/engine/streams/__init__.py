"""Streams: ways of records from one task to the next. Channels, credits, buffers, and the network."""
