"""Repair: a network with a few weights changed so that it treats groups alike, searched for and proved."""

from fairchain.repairing.files import diff_report, write_repair
from fairchain.repairing.repairer import repair
from fairchain.repairing.result import Repair, RepairProgress

__all__ = ["Repair", "RepairProgress", "diff_report", "repair", "write_repair"]
