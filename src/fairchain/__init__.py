"""fairchain decides whether a neural network treats groups of people alike, with a guarantee anybody can check.

>>> import fairchain
>>> verdict = fairchain.verify(None, fairchain.example("credit"))
>>> verdict.decision.name
'UNFAIR'

Importing this package imports nothing else; each name is loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fairchain._version import __version__

if TYPE_CHECKING:
    from fairchain.certificate import make_certificate, write_certificate
    from fairchain.chain import Chain, learn_chain, learn_family, read_chain, write_chain
    from fairchain.drafting import infer_spec
    from fairchain.errors import (
        CertificateError,
        ChainError,
        DataError,
        FairchainError,
        InputError,
        ModelError,
        QueryError,
        SpecError,
    )
    from fairchain.evidence import Decision, Interval
    from fairchain.examples import example
    from fairchain.model import Limits, OnnxModel, as_frames, load_model, to_onnx
    from fairchain.monitoring import Monitor
    from fairchain.rechecking import Recheck, recheck
    from fairchain.spec import Spec, load_spec, parse_spec
    from fairchain.verdict import Verdict
    from fairchain.verification import Progress, verify

_HOMES = {
    "fairchain.certificate": ("make_certificate", "write_certificate"),
    "fairchain.chain": ("Chain", "learn_chain", "learn_family", "read_chain", "write_chain"),
    "fairchain.drafting": ("infer_spec",),
    "fairchain.errors": (
        "CertificateError",
        "ChainError",
        "DataError",
        "FairchainError",
        "InputError",
        "ModelError",
        "QueryError",
        "SpecError",
    ),
    "fairchain.evidence": ("Decision", "Interval"),
    "fairchain.examples": ("example",),
    "fairchain.model": ("Limits", "OnnxModel", "as_frames", "load_model", "to_onnx"),
    "fairchain.monitoring": ("Monitor",),
    "fairchain.rechecking": ("Recheck", "recheck"),
    "fairchain.spec": ("Spec", "load_spec", "parse_spec"),
    "fairchain.verdict": ("Verdict",),
    "fairchain.verification": ("Progress", "verify"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "CertificateError",
    "Chain",
    "ChainError",
    "DataError",
    "Decision",
    "FairchainError",
    "InputError",
    "Interval",
    "Limits",
    "ModelError",
    "Monitor",
    "OnnxModel",
    "Progress",
    "QueryError",
    "Recheck",
    "Spec",
    "SpecError",
    "Verdict",
    "__version__",
    "as_frames",
    "example",
    "infer_spec",
    "learn_chain",
    "learn_family",
    "load_model",
    "load_spec",
    "make_certificate",
    "parse_spec",
    "read_chain",
    "recheck",
    "to_onnx",
    "verify",
    "write_certificate",
    "write_chain",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'fairchain' has no attribute '{name}'")
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
