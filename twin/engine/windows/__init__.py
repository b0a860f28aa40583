"""What windows remember, when they are evaluated, and what comes out."""
