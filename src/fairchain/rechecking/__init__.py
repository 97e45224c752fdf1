"""Rechecking of certificates without trust in their issuer or in the code that issued them: statistics/ is not used."""

from fairchain.rechecking.checker_files import UsedFile
from fairchain.rechecking.contents import Claim
from fairchain.rechecking.fresh import Fresh
from fairchain.rechecking.rechecker import recheck
from fairchain.rechecking.rerun import Cost, Sample
from fairchain.rechecking.result import Recheck

__all__ = ["Claim", "Cost", "Fresh", "Recheck", "Sample", "UsedFile", "recheck"]
