"""The operating system: processes, signals, locks, atomic writing of files, and calls of user code."""
