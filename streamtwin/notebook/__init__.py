"""Runs and answers for `import streamtwin`, as data frames, which notebooks show."""
