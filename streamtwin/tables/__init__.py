"""Results for people: tables, pictures, pages, progress."""
