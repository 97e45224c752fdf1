"""Counting and stopping: tallies, bets, intervals, and the rules that turn them into an answer."""

from fairchain.statistics.betting import BettingRule
from fairchain.statistics.estimate import EstimateRule
from fairchain.statistics.intervals import Interval
from fairchain.statistics.paper import PaperRule
from fairchain.statistics.payoff import DIFFERENCE, RATIO, SHARE, Payoff, payoff_of
from fairchain.statistics.rules import BatchPlan, Decision, Inference, Rule
from fairchain.statistics.tally import Tally, count_together

__all__ = [
    "DIFFERENCE",
    "RATIO",
    "SHARE",
    "BatchPlan",
    "BettingRule",
    "Decision",
    "EstimateRule",
    "Inference",
    "Interval",
    "PaperRule",
    "Payoff",
    "Rule",
    "Tally",
    "count_together",
    "payoff_of",
]
