"""Audits: verify, estimate all pairs, explain, learn a chain, repair and report; an audit can be continued."""

from fairchain.auditing.auditor import Audit, Step, audit

__all__ = ["Audit", "Step", "audit"]
