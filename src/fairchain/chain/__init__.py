"""Markov chains: their data, how they are learned from a network, and their files."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fairchain.chain.chain import Chain, chain_of_traces

if TYPE_CHECKING:
    from fairchain.chain.formats import read_chain, write_chain
    from fairchain.chain.learn import learn_chain, learn_family

_HOMES = {"learn_chain": "learn", "learn_family": "learn", "read_chain": "formats", "write_chain": "formats"}

__all__ = ["Chain", "chain_of_traces", "learn_chain", "learn_family", "read_chain", "write_chain"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
