"""The memory of one run, views of it, and how it is built from a job."""
