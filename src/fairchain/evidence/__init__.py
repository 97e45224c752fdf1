"""Counting and stopping: tallies, bets, intervals, and the rules that turn them into an answer."""

from fairchain.evidence.betting import BettingRule
from fairchain.evidence.estimate import EstimateRule
from fairchain.evidence.interval import Interval
from fairchain.evidence.paper import PaperRule
from fairchain.evidence.payoff import DIFFERENCE, RATIO, Payoff
from fairchain.evidence.rule import Answer, Decision, Plan, Rule
from fairchain.evidence.sampling import Batch, Sampler, default_workers, thread_pool
from fairchain.evidence.tally import Tally, count_together

__all__ = [
    "DIFFERENCE",
    "RATIO",
    "Answer",
    "Batch",
    "BettingRule",
    "Decision",
    "EstimateRule",
    "Interval",
    "PaperRule",
    "Payoff",
    "Plan",
    "Rule",
    "Sampler",
    "Tally",
    "count_together",
    "default_workers",
    "thread_pool",
]
