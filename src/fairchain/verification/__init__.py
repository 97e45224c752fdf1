"""Verification: from a model and a spec to a verdict, by coupled rounds of drawn people or by rows of a table."""

from fairchain.verification.progress import Progress
from fairchain.verification.verifier import verify

__all__ = ["Progress", "verify"]
