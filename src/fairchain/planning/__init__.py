"""Forecasts of verdicts: rounds, evaluations, seconds and rows, before anything is run."""

from fairchain.planning.planner import plan
from fairchain.planning.result import QuestionPlan, VerificationPlan

__all__ = ["QuestionPlan", "VerificationPlan", "plan"]
