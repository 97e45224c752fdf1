"""The promises of fairchain, in the order of `src/`."""
