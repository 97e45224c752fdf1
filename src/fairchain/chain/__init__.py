"""Markov chains: what one is, how it is learned from a network, and the files it is written to."""

from fairchain.chain.chain import Chain

__all__ = ["Chain"]
