"""Questions to Markov chains: PCTL, long-run shares, expected steps and gaps between groups, with bounds."""

from fairchain.checker.answer import Answer, Quantity
from fairchain.checker.check import check
from fairchain.checker.formula import Formula
from fairchain.checker.parser import parse

__all__ = ["Answer", "Formula", "Quantity", "check", "parse"]
