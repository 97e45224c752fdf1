"""Verification: from a model and a spec to a verdict, by sampling coupled rounds or by counting the rows of a table."""

from fairchain.verification.family import FamilyVerdict, verify_cases, verify_family
from fairchain.verification.progress import Progress
from fairchain.verification.verifier import verify, verify_case

__all__ = ["FamilyVerdict", "Progress", "verify", "verify_case", "verify_cases", "verify_family"]
