"""Verification: from a model and a spec to a verdict, by sampling coupled rounds or by counting the rows of a table."""

from fairchain.verification.progress import Progress
from fairchain.verification.verifier import verify, verify_case

__all__ = ["Progress", "verify", "verify_case"]
