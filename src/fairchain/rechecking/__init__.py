"""Checking a certificate without trusting whoever wrote it, or the code that did: nothing of evidence/ is used."""

from fairchain.rechecking.check import Recheck, recheck
from fairchain.rechecking.record import Claim

__all__ = ["Claim", "Recheck", "recheck"]
