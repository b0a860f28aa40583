"""Contact with real engines and machines: what they report comes in, and what the twin says of them goes out."""
