"""Repair: change a few weights of a network so that it treats groups alike, and verify the result."""

from fairchain.repairing.files import diff_report, write_repair
from fairchain.repairing.repairer import repair
from fairchain.repairing.result import Repair, RepairProgress

__all__ = ["Repair", "RepairProgress", "diff_report", "repair", "write_repair"]
