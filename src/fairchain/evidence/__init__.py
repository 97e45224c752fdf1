"""Counting and stopping: tallies, bets, intervals, and the rules that turn them into an answer."""

from fairchain.evidence.betting import BettingRule
from fairchain.evidence.estimate import EstimateRule
from fairchain.evidence.interval import Interval
from fairchain.evidence.paper import PaperRule
from fairchain.evidence.rule import Decision, Plan, Rule
from fairchain.evidence.sampling import Batch, Sampler, default_workers, thread_pool
from fairchain.evidence.tally import Tally, count_together

__all__ = [
    "Batch",
    "BettingRule",
    "Decision",
    "EstimateRule",
    "Interval",
    "PaperRule",
    "Plan",
    "Rule",
    "Sampler",
    "Tally",
    "count_together",
    "default_workers",
    "thread_pool",
]
