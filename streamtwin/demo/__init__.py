"""`twin demo`: the whole loop, its folder and its page."""
