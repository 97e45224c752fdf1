"""Changing a network: its weights, the unit each belongs to, and candidates that need no file."""
