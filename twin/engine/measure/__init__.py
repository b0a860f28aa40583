"""What is counted while a job runs."""
