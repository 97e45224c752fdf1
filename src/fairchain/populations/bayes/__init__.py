"""Bayesian networks as populations: read, checked, conditioned on a group, and drawn from."""
