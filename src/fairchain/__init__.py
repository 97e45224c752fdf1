"""fairchain."""
