"""BriskStream (SIGMOD 2019): its tables and figures."""
