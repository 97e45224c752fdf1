"""Checking a certificate without trusting whoever wrote it, or the code that did: nothing of evidence/ is used."""

from fairchain.rechecking.check import Recheck, recheck
from fairchain.rechecking.files import UsedFile
from fairchain.rechecking.fresh import Fresh
from fairchain.rechecking.record import Claim
from fairchain.rechecking.rerun import Cost, Sample

__all__ = ["Claim", "Cost", "Fresh", "Recheck", "Sample", "UsedFile", "recheck"]
