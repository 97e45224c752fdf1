"""Verification: from a model and a spec to a verdict, by coupled rounds of drawn people or by rows of a table."""

from fairchain.verification.front import verify
from fairchain.verification.progress import Progress

__all__ = ["Progress", "verify"]
