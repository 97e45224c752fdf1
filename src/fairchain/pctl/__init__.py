"""Queries of Markov chains: PCTL, long-run shares, expected steps and gaps between groups, with bounds."""

from fairchain.pctl.checker import Quantity, QueryAnswer, check_chain
from fairchain.pctl.formula import Formula
from fairchain.pctl.parser import parse

__all__ = ["Formula", "Quantity", "QueryAnswer", "check_chain", "parse"]
