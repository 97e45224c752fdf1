"""The operating system: processes, signals, locks, files written whole, and calls of the user's own code."""
