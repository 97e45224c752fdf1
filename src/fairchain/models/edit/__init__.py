"""Changes of a network: its weights, the unit of each weight, and candidates without files."""
