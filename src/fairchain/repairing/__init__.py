"""Repair: a network with a few weights changed so that it treats groups alike, searched for and proved."""

from fairchain.repairing.files import diff_report, write_repair
from fairchain.repairing.front import repair
from fairchain.repairing.result import Progress, Repair

__all__ = ["Progress", "Repair", "diff_report", "repair", "write_repair"]
