"""What `import streamtwin` gives beside the parts: runs and answers as data frames, which notebooks show."""
