"""Results for people: tables, pictures of jobs, time-lines, words."""
