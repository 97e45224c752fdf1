"""The whole way in one go: verify, survey, explain, learn a chain, repair, report; it can be stopped at any time."""

from fairchain.auditing.auditor import Audit, Step, audit

__all__ = ["Audit", "Step", "audit"]
