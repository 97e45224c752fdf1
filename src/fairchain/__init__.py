"""fairchain decides whether a model treats groups alike, with a guarantee that others can check.

>>> import fairchain
>>> verdict = fairchain.verify(None, fairchain.example("credit"))
>>> verdict.decision.name
'UNFAIR'

Importing this package imports nothing else; each name is loaded when it is first used.
"""

from __future__ import annotations

from fairchain._version import __version__

# As in `typing`, which takes milliseconds to import: until the command line has its handlers, Python handles Ctrl-C.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from fairchain.auditing import Audit, audit
    from fairchain.certificates import make_certificate, write_certificate
    from fairchain.chain import Chain, learn_chain, learn_family, read_chain, write_chain
    from fairchain.checking import check
    from fairchain.drafting import infer_spec
    from fairchain.errors import (
        AuditError,
        CertificateError,
        ChainError,
        CheckpointError,
        DataError,
        ExecutorError,
        FairchainError,
        InputError,
        ModelError,
        QueryError,
        SpecError,
    )
    from fairchain.examples import example
    from fairchain.explaining import Explanation, explain
    from fairchain.models import Limits, OnnxModel, load_model, to_onnx
    from fairchain.models.frames import as_frames
    from fairchain.monitoring import Monitor
    from fairchain.pctl import check_chain
    from fairchain.planning import VerificationPlan, plan
    from fairchain.populations.functions import Coupled
    from fairchain.rechecking import Recheck, recheck
    from fairchain.repairing import Repair, repair, write_repair
    from fairchain.spec import Spec, load_spec, parse_spec
    from fairchain.statistics import Decision, Interval
    from fairchain.subgroup_search import SubgroupSearch, find_subgroups
    from fairchain.system.isolation import isolated
    from fairchain.testing import assert_fair
    from fairchain.verification import Progress, verify
    from fairchain.verification.family import FamilyVerdict, verify_family
    from fairchain.verification.verdict import Verdict

_HOMES = {
    "fairchain.auditing": ("Audit", "audit"),
    "fairchain.certificates": ("make_certificate", "write_certificate"),
    "fairchain.checking": ("check",),
    "fairchain.chain": ("Chain", "learn_chain", "learn_family", "read_chain", "write_chain"),
    "fairchain.drafting": ("infer_spec",),
    "fairchain.errors": (
        "AuditError",
        "CertificateError",
        "CheckpointError",
        "ChainError",
        "DataError",
        "ExecutorError",
        "FairchainError",
        "InputError",
        "ModelError",
        "QueryError",
        "SpecError",
    ),
    "fairchain.statistics": ("Decision", "Interval"),
    "fairchain.examples": ("example",),
    "fairchain.explaining": ("Explanation", "explain"),
    "fairchain.system.isolation": ("isolated",),
    "fairchain.models.adapters.from_service": ("Service",),
    "fairchain.models.journal": ("journaled",),
    "fairchain.models": ("Limits", "OnnxModel", "load_model", "to_onnx"),
    "fairchain.models.frames": ("as_frames",),
    "fairchain.monitoring": ("Monitor",),
    "fairchain.pctl": ("check_chain",),
    "fairchain.planning": ("VerificationPlan", "plan"),
    "fairchain.populations.functions": ("Coupled",),
    "fairchain.rechecking": ("Recheck", "recheck"),
    "fairchain.repairing": ("Repair", "repair", "write_repair"),
    "fairchain.spec": ("Spec", "load_spec", "parse_spec"),
    "fairchain.subgroup_search": ("SubgroupSearch", "find_subgroups"),
    "fairchain.testing": ("assert_fair",),
    "fairchain.verification.verdict": ("Verdict",),
    "fairchain.verification": ("Progress", "verify"),
    "fairchain.verification.family": ("FamilyVerdict", "verify_family"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Audit",
    "AuditError",
    "CertificateError",
    "Chain",
    "ChainError",
    "CheckpointError",
    "Coupled",
    "DataError",
    "Decision",
    "ExecutorError",
    "Explanation",
    "FairchainError",
    "FamilyVerdict",
    "InputError",
    "Interval",
    "Limits",
    "ModelError",
    "Monitor",
    "OnnxModel",
    "Progress",
    "QueryError",
    "Recheck",
    "Repair",
    "Service",
    "Spec",
    "SpecError",
    "SubgroupSearch",
    "Verdict",
    "VerificationPlan",
    "__version__",
    "as_frames",
    "assert_fair",
    "audit",
    "check",
    "check_chain",
    "example",
    "explain",
    "find_subgroups",
    "infer_spec",
    "isolated",
    "journaled",
    "learn_chain",
    "learn_family",
    "load_model",
    "load_spec",
    "make_certificate",
    "parse_spec",
    "plan",
    "read_chain",
    "recheck",
    "repair",
    "to_onnx",
    "verify",
    "verify_family",
    "write_certificate",
    "write_chain",
    "write_repair",
]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name == "metrics":
        # A module that is used by its name: fairchain.metrics.by_group(...).
        return import_module("fairchain.metrics")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'fairchain' has no attribute '{name}'")
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
