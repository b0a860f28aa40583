"""Files that people write and read: scenarios, overrides, traces, the library."""
